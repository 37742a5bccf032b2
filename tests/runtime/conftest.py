"""What these tests share: a cache folder of the session's own, and LLVM IR of small entries.

An entry here gets plain words where an executable gets descriptor pointers: whatever the test put there.
"""

from types import SimpleNamespace

import pytest

from rushlight.support import settings

FRAME = """
define internal void @share(ptr %args, i64 %begin, i64 %end) {
entry:
  BODY
}
; Words: data, n, grain.
define i64 @parallel(ptr %ctx, ptr %words) {
  %for.at = getelementptr i64, ptr %ctx, i64 3
  %for = load ptr, ptr %for.at
  %n.at = getelementptr i64, ptr %words, i64 1
  %n = load i64, ptr %n.at
  %grain.at = getelementptr i64, ptr %words, i64 2
  %grain = load i64, ptr %grain.at
  call void %for(ptr %ctx, ptr @share, ptr %words, i64 %n, i64 %grain)
  ret i64 0
}
"""

# Adds 1 to every element, and says in the word before the data how many elements each thread's share had.
INCREMENT = FRAME.replace(
    "BODY",
    """
  %data = load ptr, ptr %args
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i64, ptr %data, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  br label %head
done:
  ret void
""",
)

# Writes begin into every element of its share, having waited for as many turns as word 3 says.
MARK = FRAME.replace(
    "BODY",
    """
  %data = load ptr, ptr %args
  %turns.at = getelementptr i64, ptr %args, i64 3
  %turns = load i64, ptr %turns.at
  br label %wait
wait:
  %t = phi i64 [ 0, %entry ], [ %t.next, %wait ]
  %again = load volatile i64, ptr %turns.at
  %t.next = add i64 %t, 1
  %waiting = icmp slt i64 %t.next, %turns
  br i1 %waiting, label %wait, label %head
head:
  %i = phi i64 [ %begin, %wait ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i64, ptr %data, i64 %i
  store i64 %begin, ptr %at
  %next = add i64 %i, 1
  br label %head
done:
  ret void
""",
)

# Waits, for as many turns as word 4 says, until two shares run at once (counted in word 3); writes 1 where they did.
MEET = FRAME.replace(
    "BODY",
    """
  %data = load ptr, ptr %args
  %here.at = getelementptr i64, ptr %args, i64 3
  %turns.at = getelementptr i64, ptr %args, i64 4
  %turns = load i64, ptr %turns.at
  %before = atomicrmw add ptr %here.at, i64 1 seq_cst
  br label %wait
wait:
  %t = phi i64 [ 0, %entry ], [ %t.next, %again ]
  %here = load atomic i64, ptr %here.at seq_cst, align 8
  %both = icmp sge i64 %here, 2
  br i1 %both, label %met, label %again
again:
  %t.next = add i64 %t, 1
  %waiting = icmp slt i64 %t.next, %turns
  br i1 %waiting, label %wait, label %alone
met:
  %at = getelementptr i64, ptr %data, i64 %begin
  store i64 1, ptr %at
  ret void
alone:
  %left = atomicrmw sub ptr %here.at, i64 1 seq_cst
  ret void
""",
)

# Halves the smallest normal number in the share, so that the result is a subnormal unless these are flushed.
HALVE = FRAME.replace(
    "BODY",
    """
  %data = load ptr, ptr %args
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %at = getelementptr float, ptr %data, i64 %i
  %old = load volatile float, ptr %at
  %new = fmul float %old, 0.5
  store float %new, ptr %at
  %next = add i64 %i, 1
  br label %head
done:
  ret void
""",
)

# A share that runs parallel_for itself; word 3 is the context.
NESTED = INCREMENT.replace("@share", "@inner").replace("@parallel", "@unused") + FRAME.replace(
    "BODY",
    """
  %data = load ptr, ptr %args
  %ctx.at = getelementptr i64, ptr %args, i64 3
  %ctx = load ptr, ptr %ctx.at
  %for.at = getelementptr i64, ptr %ctx, i64 3
  %for = load ptr, ptr %for.at
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %row.words = alloca [3 x i64]
  %far = mul i64 %i, 100
  %row = getelementptr i64, ptr %data, i64 %far
  store ptr %row, ptr %row.words
  call void %for(ptr %ctx, ptr @inner, ptr %row.words, i64 100, i64 1)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
""",
)

# Status 1 until the arena has the bytes of word 0, then the arena's last byte is written.
NEEDS_ARENA = """
define i64 @entry(ptr %ctx, ptr %words) {
  %need = load i64, ptr %words
  %has.at = getelementptr i64, ptr %ctx, i64 1
  %has = load i64, ptr %has.at
  %enough = icmp sge i64 %has, %need
  br i1 %enough, label %run, label %ask
ask:
  %need.at = getelementptr i64, ptr %ctx, i64 2
  store i64 %need, ptr %need.at
  ret i64 1
run:
  %arena = load ptr, ptr %ctx
  %last = sub i64 %need, 1
  %at = getelementptr i8, ptr %arena, i64 %last
  store i8 7, ptr %at
  ret i64 0
}
"""

# Returns word 0.
RETURNS = """
define i64 @entry(ptr %ctx, ptr %words) {
  %status = load i64, ptr %words
  ret i64 %status
}
"""

# Polls the interrupt byte until it is set (status 2) or word 1 becomes nonzero; counts its calls in word 0.
POLLS = """
define i64 @entry(ptr %ctx, ptr %words) {
entry:
  %calls = load i64, ptr %words
  %calls.more = add i64 %calls, 1
  store volatile i64 %calls.more, ptr %words
  %byte.at = getelementptr i64, ptr %ctx, i64 4
  %byte.address = load ptr, ptr %byte.at
  %end.at = getelementptr i64, ptr %words, i64 1
  br label %poll
poll:
  %byte = load atomic i8, ptr %byte.address monotonic, align 1
  %set = icmp ne i8 %byte, 0
  br i1 %set, label %interrupted, label %look
look:
  %end = load volatile i64, ptr %end.at
  %over = icmp ne i64 %end, 0
  br i1 %over, label %finished, label %poll
interrupted:
  ret i64 2
finished:
  ret i64 0
}
"""


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    settings.update(cache_dir=str(folder))
    return folder


@pytest.fixture(scope="session")
def texts():
    return SimpleNamespace(
        increment=INCREMENT,
        mark=MARK,
        meet=MEET,
        halve=HALVE,
        nested=NESTED,
        needs_arena=NEEDS_ARENA,
        returns=RETURNS,
        polls=POLLS,
    )
