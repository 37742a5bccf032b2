"""Pieces of training scripts beside the steps: schedules, averages, meters, hooks, checkpoints and the like."""

from __future__ import annotations

from tools.fuzz.training_pieces import Piece

_EVALUATED = """
if turn % 3 == 2:
    model.eval()
    with torch.{mode}():
        held = (model(valid) - target).square().mean().item()
    model.train()
    best = min(best, held)
"""

FEATURES = (
    Piece(
        "schedules",
        begin="schedules = [optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.9), "
        "optim.lr_scheduler.ExponentialLR(optimizer, 0.99)]",
        after="for schedule in schedules:\n    schedule.step()",
        show=("schedules[0].get_last_lr()[0]", "schedules[1].last_epoch"),
    ),
    Piece(
        "sequential",
        begin="schedule = optim.lr_scheduler.SequentialLR(optimizer, [optim.lr_scheduler.LinearLR(optimizer, "
        "0.2, total_iters=3), "
        "optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)], milestones=[3])",
        after="schedule.step()",
        show=("schedule.get_last_lr()",),
    ),
    Piece(
        "chained",
        begin="chained = optim.lr_scheduler.ChainedScheduler([optim.lr_scheduler.ConstantLR(optimizer, 0.5, "
        "total_iters=3), "
        "optim.lr_scheduler.MultiStepLR(optimizer, [2, 5])])",
        after="chained.step()",
        show=("optimizer.param_groups[0]['lr']",),
    ),
    Piece(
        "lambda",
        begin="warm = {'steps': 4}\nrates = optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + "
        "1) / warm['steps']))",
        after="rates.step()\nif turn == 5:\n    warm['steps'] = 20",
        show=("rates.get_last_lr()[0]",),
    ),
    Piece(
        "plateau",
        begin="plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)",
        after="plateau.step(value)",
        show=("plateau.num_bad_epochs", "plateau.best", "optimizer.param_groups[0]['lr']"),
    ),
    Piece(
        "cycle",
        begin="cycle = optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=40, cycle_momentum=False)",
        after="cycle.step()\nif turn == 6:\n    saved = cycle.state_dict()\n"
        "    cycle.load_state_dict(copy.deepcopy(saved))",
        show=("cycle.get_last_lr()", "cycle._step_count"),
    ),
    Piece(
        "warmup",
        begin="def rate(step):\n    return 0.1 * min(1, (step + 1) / 4) * 0.5 * (1 + math.cos(math.pi * step / 20))",
        before="for group in optimizer.param_groups:\n    group['lr'] = rate(turn)\n    group['turn'] = f'turn {turn}'",
        show=("[(group['lr'], group['turn']) for group in optimizer.param_groups]",),
    ),
    Piece(
        "ema",
        begin="ema = copy.deepcopy(model)\nfor p in ema.parameters():\n    p.requires_grad_(False)",
        after="with torch.no_grad():\n    for a, b in zip(ema.parameters(), model.parameters()):\n"
        "        a.mul_(0.9).add_(b, alpha=0.1)\n    for a, b in zip(ema.buffers(), model.buffers()):\n"
        "        a.copy_(b)",
        end="seen.append([p.sum().item() for p in ema.parameters()])",
    ),
    Piece(
        "shadow",
        begin="shadow = {name: p.detach().clone() for name, p in model.named_parameters()}",
        after="for name, p in model.named_parameters():\n    if name in shadow and shadow[name].shape == p.shape:\n"
        "        shadow[name] = 0.9 * shadow[name] + 0.1 * p.detach()\n    else:\n"
        "        shadow[name] = p.detach().clone()",
        show=("sum(v.sum().item() for v in shadow.values())",),
    ),
    Piece(
        "averaged",
        begin="averaged = torch.optim.swa_utils.AveragedModel(model)",
        after="if turn >= 3 and turn % 2:\n    averaged.update_parameters(model)",
        show=("int(averaged.n_averaged)",),
        end="seen.append([p.sum().item() for p in averaged.parameters()])",
    ),
    Piece(
        "best",
        begin="best_state = None",
        after="if best_state is None or value < best_state[0]:\n"
        "    best_state = (value, copy.deepcopy(model.state_dict()), turn)",
        show=("best_state[0]", "best_state[2]"),
        end="model.load_state_dict(best_state[1], strict=False)",
    ),
    Piece(
        "early",
        begin="lowest, bad = float('inf'), 0",
        after="if value < lowest:\n    lowest, bad = value, 0\nelse:\n    bad += 1\nif bad > 6:\n"
        "    seen.append('early')\n    break",
        show=("bad", "lowest"),
    ),
    Piece(
        "meters",
        top="""
class Meter:
    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.sum, self.count, self.values = 0.0, 0, []

    def update(self, value, count=1):
        self.sum += value * count
        self.count += count
        self.values.append(value)

    @property
    def average(self):
        return self.sum / max(self.count, 1)

    def __str__(self):
        return f"{self.name} {self.average:.4f} ({self.count})"
""",
        begin="meters = {name: Meter(name) for name in ('loss', 'out')}",
        after="meters['loss'].update(value, len(x))\nmeters['out'].update(out.detach().abs().max().item())\n"
        "if turn % 4 == 3:\n    print(' | '.join(map(str, meters.values())))\n    for meter in meters.values():\n"
        "        meter.reset()",
        show=("str(meters['loss'])", "meters['out'].average"),
    ),
    Piece(
        "dataclass",
        top="""
@dataclass
class State:
    step: int = 0
    loss: float = 0.0
    history: list = field(default_factory=list)
    extra: dict = field(default_factory=dict)
""",
        begin="state = State()",
        after="state.step += 1\nstate.loss = value\nstate.history.append((state.step, value))\n"
        "state.extra[f'step {state.step}'] = out.shape[0]\n"
        "if turn == 7:\n    state = replace(state, history=state.history[-2:])",
        show=("state.step", "state.history[-1]", "len(state.extra)", "repr(state)"),
    ),
    Piece(
        "windows",
        begin="window, kinds, counts = deque(maxlen=3), defaultdict(list), Counter()",
        after="window.append(value)\nkinds[turn % 3].append(value)\ncounts['high' if value > 1 else 'low'] += 1",
        show=("sum(window) / len(window)", "{k: len(v) for k, v in kinds.items()}", "counts.most_common()"),
    ),
    Piece(
        "prints",
        after="print(f'{turn:>3} loss={value:.4f} {tuple(out.shape)}')\nif turn % 2:\n"
        "    print('out', out.detach()[0], sep='=')",
    ),
    Piece(
        "logging",
        begin="stream = io.StringIO()\nlogger = logging.getLogger('training')\n"
        "logger.handlers[:] = [logging.StreamHandler(stream)]\n"
        "logger.propagate = False\nlogger.setLevel(logging.INFO)",
        after="logger.info('turn %d: %.5f', turn, value)\nlogger.debug('nothing')\nif value > 1:\n"
        "    logger.warning('high %s', round(value, 3))",
        show=("stream.getvalue()[-40:]",),
    ),
    Piece(
        "hooks",
        begin="noted, handles = [], []",
        before="if turn == 2:\n    handles.append(model.register_forward_hook(lambda m, args, result: "
        "noted.append(result.detach().mean().item())))\n"
        "if turn == 4:\n    handles.append(model.register_forward_pre_hook(lambda m, args: (args[0] * 1.5,)))\n"
        "if turn == 7:\n    handles.pop(0).remove()",
        show=("noted[-2:]", "len(handles)"),
    ),
    Piece(
        "gradients",
        begin="sizes = []\nfor name, p in model.named_parameters():\n"
        "    p.register_hook(lambda grad, name=name: sizes.append((name, grad.abs().max().item())))",
        before="sizes.clear()",
        show=("sorted(sizes)[:2]",),
    ),
    Piece(
        "accumulated_hooks",
        begin="passes = Counter()\nfirst = next(model.parameters())\n"
        "handle = first.register_post_accumulate_grad_hook(lambda p: passes.update([p.grad is not None]))",
        after="if turn == 6:\n    handle.remove()",
        show=("dict(passes)",),
    ),
    Piece(
        "of_steps",
        begin="steps = []\npre = optimizer.register_step_pre_hook(lambda opt, args, kwargs: steps.append('pre'))\n"
        "post = optimizer.register_step_post_hook(lambda opt, args, kwargs: "
        "steps.append(opt.param_groups[0]['lr']))",
        after="if turn == 5:\n    pre.remove()",
        show=("len(steps)", "steps[-2:]"),
    ),
    Piece(
        "callbacks",
        begin="""
seen_by = []
def every(turn, value):
    seen_by.append((turn, round(value, 3)))
def halve(turn, value):
    if turn % 4 == 3:
        for group in optimizer.param_groups:
            group['lr'] *= 0.5
callbacks = [every]
""",
        after="for callback in list(callbacks):\n    callback(turn, value)\nif turn == 3:\n"
        "    callbacks.append(halve)\n"
        "if turn == 8:\n    callbacks.remove(every)",
        show=("len(seen_by)", "seen_by[-1]"),
    ),
    Piece(
        "saved",
        after="if turn % 4 == 1:\n    file = io.BytesIO()\n"
        "    torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'turn': turn}, file)\n"
        "    size = turn\n"
        "if turn % 4 == 3:\n    file.seek(0)\n    loaded = torch.load(file)\n"
        "    model.load_state_dict(loaded['model'])\n"
        "    optimizer.load_state_dict(loaded['optimizer'])\n    seen.append(loaded['turn'])",
    ),
    Piece(
        "copied_state",
        after="if turn % 3 == 2:\n    kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))\n"
        "if turn == 7:\n    model.load_state_dict(kept[0])\n    optimizer.load_state_dict(kept[1])",
    ),
    Piece(
        "pickled",
        after="packed = pickle.dumps({'turn': turn, 'value': value, 'numbers': [p.numel() for p in "
        "model.parameters()]})",
        show=("pickle.loads(packed)",),
    ),
    Piece(
        "loader",
        begin="""
data = torch.utils.data.TensorDataset(torch.from_numpy(numbers(77, 24, 6)), torch.from_numpy(numbers(78, 24, 2)))
loader = torch.utils.data.DataLoader(data, batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(3))
batches = iter(loader)
""",
        before="try:\n    x, y = next(batches)\nexcept StopIteration:\n    batches = iter(loader)\n"
        "    x, y = next(batches)",
        show=("tuple(x.shape)",),
    ),
    Piece(
        "feed",
        begin="""
def feed():
    for number in itertools.count():
        yield number, torch.from_numpy(numbers(number + 300, 3, 6))
source = feed()
""",
        before="number, more = next(source)\nx = x + more.mean(0) * (number % 3)",
        show=("number",),
    ),
    Piece(
        "curriculum",
        before="count = 2 + turn % 4\nx, y = x[:count], y[:count]",
        show=("len(x)",),
    ),
    Piece(
        "frozen",
        before="if turn == 4:\n    for p in list(model.parameters())[:1]:\n        p.requires_grad_(False)\n"
        "        p.grad = None\n"
        "if turn == 8:\n    for p in model.parameters():\n        p.requires_grad_(True)",
        show=("[p.requires_grad for p in model.parameters()]",),
    ),
    Piece(
        "added_group",
        begin="bias = None",
        before="if turn == 3:\n    bias = nn.Parameter(torch.zeros(2))\n"
        "    optimizer.add_param_group({'params': [bias], 'lr': 0.2})",
        loss="if bias is not None:\n    out = out + bias\n    loss = (out - y).square().mean()",
        show=("None if bias is None else bias.tolist()", "len(optimizer.param_groups)"),
    ),
    Piece(
        "evaluated",
        begin="valid, target = batch(50)\nbest = float('inf')",
        after=_EVALUATED.format(mode="no_grad"),
        show=("best", "model.training"),
    ),
    Piece(
        "inference",
        begin="valid, target = batch(51)\nbest = float('inf')",
        after=_EVALUATED.format(mode="inference_mode"),
        show=("best",),
    ),
    Piece(
        "noise",
        begin="generator = torch.Generator().manual_seed(5)",
        before="x = x + 0.1 * torch.randn(x.shape, generator=generator) + 0.01 * torch.randn_like(x)\n"
        "if turn == 4:\n    rng = torch.get_rng_state()\nif turn == 7:\n    torch.set_rng_state(rng)",
        show=("torch.rand(1).item()",),
    ),
    Piece(
        "python_random",
        begin="random.seed(4)\nnp.random.seed(4)",
        before="if random.random() < 0.5:\n    x = -x\nx = x * float(np.random.uniform(0.5, 1.5))",
        show=("random.randint(0, 99)",),
    ),
    Piece(
        "arrays",
        begin="curve = np.zeros(4)",
        after="curve[turn % 4] = value\narray = out.detach().numpy()",
        show=("curve.mean()", "float(np.linalg.norm(array))", "curve.argmax()"),
    ),
    Piece(
        "bank",
        begin="bank = torch.zeros(4, 2)\npointer = 0",
        loss="loss = loss + 0.1 * (out.mean(0) - bank.mean(0)).square().sum()",
        after="with torch.no_grad():\n    bank[pointer] = out.detach().mean(0)\npointer = (pointer + 1) % len(bank)",
        show=("bank.sum().item()", "pointer"),
    ),
    Piece(
        "teacher",
        begin="teacher = copy.deepcopy(model).eval()",
        loss="with torch.no_grad():\n    wanted = teacher(x)\n"
        "loss = loss + 0.2 * torch.nn.functional.smooth_l1_loss(out, wanted)",
        after="if turn % 4 == 3:\n    teacher.load_state_dict(model.state_dict(), strict=False)",
        show=("wanted.sum().item()",),
    ),
    Piece(
        "critic",
        begin="critic = nn.Linear(2, 1)\nof_critic = optim.SGD(critic.parameters(), lr=0.1)\n"
        "judges = nn.BCEWithLogitsLoss()",
        loss="loss = loss + 0.1 * judges(critic(out), torch.ones(len(out), 1))",
        after="of_critic.zero_grad()\n"
        "fake = judges(critic(out.detach()), torch.zeros(len(out), 1)) + judges(critic(y), torch.ones(len(y), 1))\n"
        "fake.backward()\nof_critic.step()",
        show=("fake.item()",),
    ),
    Piece(
        "rollout",
        begin="policy = nn.Linear(6, 3)\nof_policy = optim.Adam(policy.parameters(), lr=0.05)\nbaseline = 0.0",
        after="""
chances, rewards = [], []
position = x[0]
for _ in range(3):
    chosen = torch.distributions.Categorical(logits=policy(position))
    action = chosen.sample()
    chances.append(chosen.log_prob(action))
    rewards.append(float(action.item() == turn % 3))
    position = position.roll(1)
returns, total_return = [], 0.0
for reward in reversed(rewards):
    total_return = reward + 0.9 * total_return
    returns.insert(0, total_return)
baseline = 0.9 * baseline + 0.1 * total_return
gain = -torch.stack(chances) @ (torch.tensor(returns) - baseline)
of_policy.zero_grad()
gain.backward()
of_policy.step()
""",
        show=("gain.item()", "returns", "baseline"),
    ),
    Piece(
        "replay",
        begin="buffer = deque(maxlen=4)\nrandom.seed(1)",
        before="buffer.append((x, y))\nchosen_ones = random.sample(list(buffer), min(2, len(buffer)))\n"
        "x = torch.cat([a for a, _ in chosen_ones])\ny = torch.cat([b for _, b in chosen_ones])",
        show=("len(buffer)", "len(x)"),
    ),
    Piece(
        "counters",
        top="COUNT = 0\nLOG = []\n\n\ndef counted(value):\n    global COUNT\n    COUNT += 1\n"
        "    LOG.append(value)\n    return COUNT\n",
        after="number_of_calls = counted(value)",
        show=("number_of_calls", "COUNT", "len(LOG)"),
    ),
    Piece(
        "closures",
        begin="later = []",
        after="later.append(lambda scale=value, turn=turn: scale * turn)",
        show=("later[-1]()", "sum(f() for f in later)"),
    ),
    Piece(
        "finder",
        after="for group in optimizer.param_groups:\n    group['lr'] *= 1.05",
        show=("optimizer.param_groups[-1]['lr']",),
    ),
    Piece(
        "attributes",
        before="model.temperature = 1 + turn * 0.1\nmodel.tag = f'turn {turn}'\nmodel.setting = {'turn': turn}\n"
        "model.pair = (turn, value if turn else None)",
        loss="loss = loss * model.temperature",
        show=("model.tag", "model.setting['turn']", "model.pair", "getattr(model, 'tag')"),
    ),
    Piece(
        "clamped",
        after="with torch.no_grad():\n    for p in model.parameters():\n        p.clamp_(-1.5, 1.5)\n"
        "    first = next(model.parameters())\n    first.data = first.data * 0.99",
        show=("first.abs().max().item()",),
    ),
    Piece(
        "matched",
        after="match turn % 4, value > 1:\n    case 0, _:\n        phase = 'start'\n    case n, True if n > 1:\n"
        "        phase = f'high {n}'\n"
        "    case _:\n        phase = 'rest'\nif (rounded := round(value, 2)) > 0.5:\n    phase += f' {rounded}'",
        show=("phase",),
    ),
    Piece(
        "scopes",
        top="""
class Timer:
    active = 0

    def __init__(self, log):
        self.log = log

    def __enter__(self):
        Timer.active += 1
        return self

    def __exit__(self, kind, error, trace):
        Timer.active -= 1
        self.log.append(None if kind is None else kind.__name__)
        return kind is KeyError
""",
        begin="spans = []",
        after="with Timer(spans) as timer, contextlib.suppress(IndexError):\n    if turn % 3 == 0:\n"
        "        {}[turn]\n    if turn % 3 == 1:\n        [][turn]\n    value += 0",
        show=("spans[-1]", "Timer.active", "len(timer.log)"),
    ),
    Piece(
        "optimizer_state",
        after="if turn == 5:\n    for held_state in optimizer.state.values():\n"
        "        for name, part in held_state.items():\n"
        "            if torch.is_tensor(part) and part.ndim:\n                part.zero_()",
        show=(
            "float(sum(part.sum().item() for held in optimizer.state.values() "
            "for part in held.values() if torch.is_tensor(part)))",
        ),
    ),
    Piece(
        "heads",
        begin="heads = nn.ModuleList([nn.Linear(2, 2)])\nof_heads = optim.SGD(heads.parameters(), lr=0.05)",
        before="if turn in (3, 6):\n    heads.append(nn.Linear(2, 2))\n"
        "    of_heads.add_param_group({'params': heads[-1].parameters()})",
        loss="for head in heads:\n    out = out + head(out).tanh()\nloss = (out - y).square().mean()\n"
        "of_heads.zero_grad()",
        after="of_heads.step()",
        show=("len(heads)", "heads[-1].weight.sum().item()"),
    ),
    Piece(
        "autocast",
        loss="with torch.autocast('cpu', dtype=torch.bfloat16, enabled=turn % 2 == 0):\n"
        "    lower = (out @ out.mT)\nloss = loss + 0.01 * lower.float().mean()",
        show=("str(lower.dtype)",),
    ),
    Piece(
        "accuracy",
        begin="confusion = Counter()",
        after="guess, truth = out.argmax(-1).tolist(), y.argmax(-1).tolist()\nconfusion.update(zip(truth, guess))\n"
        "accuracy = sum(a == b for a, b in zip(guess, truth)) / max(len(guess), 1)",
        show=("accuracy", "sorted(confusion.items())"),
    ),
    Piece(
        "heap",
        begin="top, ids = [], set()",
        after="heapq.heappush(top, (-value, turn))\nif len(top) > 3:\n    heapq.heappop(top)\nids.add(turn % 5)",
        show=("sorted(top)[0][1]", "len(ids)", "statistics.fmean([v for v, _ in top])"),
    ),
    Piece(
        "trainer",
        top="""
class Trainer:
    __slots__ = ("model", "events", "step", "rates")
    instances = 0

    def __init__(self, model):
        self.model, self.events, self.step, self.rates = model, [], 0, {}
        type(self).instances += 1

    def fire(self, name, **facts):
        self.step += 1
        self.rates[name] = self.rates.get(name, 0) + facts.get("value", 0)
        self.events.append((name, self.step, sorted(facts)))
        return self
""",
        begin="trainer = Trainer(model)",
        after="trainer.fire('turn', value=value).fire('end')",
        show=("trainer.step", "trainer.rates['turn']", "trainer.events[-2:]", "Trainer.instances"),
    ),
    Piece(
        "detached_list",
        begin="outputs, losses = [], []",
        after="outputs.append(out.detach())\nlosses.append(loss.detach())\nif len(outputs) > 4:\n    del outputs[0]",
        show=("torch.stack(losses).mean().item()", "sum(o.sum().item() for o in outputs)"),
    ),
    Piece(
        "nested_steps",
        begin="""
history = {'train': {'loss': []}}
def record(split, **values):
    for name, number in values.items():
        history.setdefault(split, {}).setdefault(name, []).append(number)
""",
        after="record('train', loss=value, big=value > 1)\nif turn % 2:\n    record('odd', loss=value)",
        show=(
            "{split: {name: len(v) for name, v in held.items()} for split, held in history.items()}",
            "history['train']['loss'][-1]",
        ),
    ),
)
