"""The phase for failed checks: read their logs, run them again, or ask the agent for one commit."""

from dataclasses import dataclass

from mergedog.agent import Accepted, Judged, Rejected, Spurious, judge_work
from mergedog.phases.checks import newest_runs
from mergedog.phases.prompts import conflict_prompt, fix_prompt, visible_note
from mergedog.phases.push import push_commit
from mergedog.records import Job, Run
from mergedog.rules import Cure, Diagnosis, diagnose
from mergedog.session import NEXT, Again, Outcome, Session
from mergedog.state import AgentSession
from mergedog.untrusted import Untrusted


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed job, its log and what a rule makes of it."""

    run: Run
    job: Job
    log: Untrusted
    diagnosis: Diagnosis

    @property
    def key(self) -> str:
        """What a judgement is remembered by: this attempt of this job, and a name for people."""
        return spurious_key(self.run, self.job)


def spurious_key(run: Run, job: Job) -> str:
    """Return the key of a job that failed: two workflows may have jobs of one name."""
    return f"{run.id}.{run.attempt}:{job.id}:{run.workflow} / {job.name}"


def repair(session: Session) -> Outcome:
    """Deal with the failures of the head that nobody has judged spurious."""
    failures = _failures(session)
    fixable = [failure for failure in failures if failure.diagnosis.cure is Cure.FIX]
    if fixable:
        return _ask_for_fix(session, fixable)
    for failure in failures:
        if failure.diagnosis.cure is Cure.RERUN and _rerun(session, failure):
            return Again("failed jobs run again")
    for failure in failures:
        _judge_spurious(session, failure)
    return NEXT


def _failures(session: Session) -> list[Failure]:
    judged = session.state.spurious.get(session.head, {})
    found: list[Failure] = []
    for run in newest_runs(session.runs):
        if run.status == "failed":
            jobs = [job for job in _failed_jobs(session, run) if spurious_key(run, job) not in judged]
            found += [_read(session, run, job) for job in jobs]
    return found


def _failed_jobs(session: Session, run: Run) -> list[Job]:
    """Return the failed jobs; a run that failed before it had jobs counts as one."""
    jobs = [job for job in session.world.forge.jobs(run.id) if job.failed]
    return jobs or [Job(0, run.workflow, True, "startup_failure")]


def _read(session: Session, run: Run, job: Job) -> Failure:
    log = session.world.forge.log(job.id) if job.id else Untrusted("", "log")
    return Failure(run, job, log, diagnose(session.policy.rules, job.conclusion, log))


def _rerun(session: Session, failure: Failure) -> bool:
    """Run failed jobs again, unless the workflow has had its reruns at this head."""
    run, bounds = failure.run, session.policy.bounds
    action, group = f"rerun:{run.id}:{run.attempt}", f"reruns:{session.head}:{run.workflow_id}:{run.event}"
    if action not in session.state.begun and session.state.counts.get(group, 0) >= bounds.reruns:
        return False
    reason = failure.diagnosis.reason
    rerun = session.world.forge.rerun_failed
    session.act(action, group, bounds.reruns, lambda: rerun(run.id), f"rerun {run.workflow}: {reason}")
    return True


def _judge_spurious(session: Session, failure: Failure) -> None:
    reason = failure.diagnosis.reason
    if failure.diagnosis.cure is Cure.RERUN:
        reason += f", in each of {failure.run.attempt} attempts"
    _note_spurious(session, failure, reason)


def _note_spurious(session: Session, failure: Failure, reason: str) -> None:
    session.state.spurious.setdefault(session.head, {})[failure.key] = reason
    session.state.log.append(f"spurious {failure.run.workflow} / {failure.job.name}: {reason}")
    session.save()


def _ask_for_fix(session: Session, failures: list[Failure]) -> Outcome:
    prompt = fix_prompt(session, [(failure.diagnosis, failure.log) for failure in failures])
    judged = ask_agent(session, "fix", prompt, (session.head,))
    if isinstance(judged, Spurious):
        for failure in failures:
            _note_spurious(session, failure, f"the agent: {visible_note(judged.reason)}")
    return Again("the agent has worked")


def ask_for_merge(session: Session) -> Outcome:
    """Ask the agent to resolve the conflicts of the head with the base branch."""
    base = session.world.repository.base_head(session.pull.base_branch)
    ask_agent(session, "conflict", conflict_prompt(session), (session.head, base))
    return Again("the agent has worked")


def ask_agent(session: Session, task: str, prompt: str, parents: tuple[str, ...]) -> Judged:
    """Let the agent work once, and push a commit of ours with its tree if that may be.

    A session costs money when it begins, so it is counted then, also if this process ends in the middle of it.
    """
    repository, policy = session.world.repository, session.policy
    session.spend(f"fixes:{session.approval}", policy.bounds.fixes)
    worktree = repository.worktree(session.head, session.pull.base_branch, task == "conflict")
    try:
        ending = session.world.agent.run(prompt, worktree, policy.timing.agent_seconds)
        judged = judge_work(ending, repository.work(worktree), policy.agent)
        sha = ""
        if isinstance(judged, Accepted):
            message = f"{policy.agent.tag} {_subject(judged, policy.agent.tag)}"
            sha = repository.replay(judged.work, worktree, parents, message)
    finally:
        repository.discard(worktree)
    _note_session(session, task, judged, sha)
    if sha:
        push_commit(session, sha, f"{task} by the agent")
    return judged


def _subject(judged: Accepted, tag: str) -> str:
    """Return the agent's subject without the tag, short and without anything hidden."""
    return visible_note(judged.work.message.lines()[0][len(tag) :].strip())


def _note_session(session: Session, task: str, judged: Judged, sha: str) -> None:
    match judged:
        case Accepted(work):
            outcome, note = f"commit {sha}", visible_note(work.message.lines()[0])
        case Spurious(reason):
            outcome, note = "spurious", visible_note(reason)
        case Rejected(why):
            outcome, note = "rejected", why
    session.state.sessions.append(AgentSession(task, session.head, outcome, note))
    session.state.log.append(f"agent {task}: {outcome.split()[0]}" + (f": {note}" if outcome == "rejected" else ""))
    session.save()
