"""Codes of failures around programs: compilation, cache, checkpoints, settings, and our own rules."""

from rushlight.support.errors.classes import (
    ArgumentTypeError,
    ArgumentValueError,
    CacheError,
    CacheWarning,
    CaptureWarning,
    CheckpointError,
    CheckpointFileError,
    CompileError,
    DataDependentError,
    InternalError,
    SettingError,
)
from rushlight.support.errors.registry import register_code

register_code(
    "C001",
    ArgumentValueError,
    "There is no such compile backend",
    "Backends are rushlight (or inductor, cudagraphs), eager, aot_eager and reference, or a callable that gets a graph"
    " and example inputs, and gives a function of such inputs.",
)
register_code(
    "C002",
    DataDependentError,
    "Control flow depends on a tensor's value",
    "While a program is traced, tensors have shapes but no values, and some sizes are open. The error names the"
    " condition, where the values in it come from, and what would decide it.",
    "use rl.where, or keep the branch outside the compiled function",
)
register_code(
    "C003",
    CompileError,
    "This cannot be captured",
    "The program does something that one graph cannot hold. The error says what; docs/breaks.md has the kinds of such"
    " things, and docs/limits.md what else tracing cannot follow.",
)
register_code(
    "C004",
    CompileError,
    "LLVM rejected the generated code",
    "This is a defect of Rushlight: please report it with the dump.",
    "set RUSHLIGHT_DUMP=folder to write every stage of the compilation",
)
register_code(
    "C005",
    CompileError,
    "Generated code calls an unknown function",
    "Each object's undefined symbols are checked against a table before it is loaded.",
)
register_code(
    "C006",
    CompileError,
    "The target cannot be compiled for",
    "RUSHLIGHT_TARGET names a processor or feature level that LLVM, or this machine, does not have.",
)
register_code(
    "C008",
    CaptureWarning,
    "The same function is compiled again and again",
    "Each call brought an argument that the guards of all earlier graphs refuse.",
    "RUSHLIGHT_LOG=recompile shows which guards fail; pass changing numbers as tensors",
)
register_code(
    "C009",
    CompileError,
    "Text is not valid IR",
    "The text of a graph, kernel or size expression could not be parsed; the message says where.",
)
register_code(
    "C010",
    CompileError,
    "A tensor or size of a trace is used outside it",
    "While tracing, tensors and sizes are placeholders; one was kept and used after the trace had ended, or in another "
    "one.",
    "return it from the compiled function",
)
register_code(
    "C011",
    CompileError,
    "A size that was said to be open is fixed by the program",
    "What a function does with a size that was marked dynamic, or is a variable of the specification, is only right "
    "for one value: the line says where that is decided.",
    "remove what fixes it, or mark the dim static, or write the value in the specification",
)
register_code(
    "C012",
    CompileError,
    "Two tensors show different parts of one storage",
    "A compiled function reaches two tensors on one storage, and neither is a view of the other.",
    "make one of them a view of the other",
)
register_code(
    "C013",
    CompileError,
    "A write to what may or may not share memory",
    "Sizes and strides say whether a reshape is a view or a copy. Where nobody knows them, nobody knows either whether "
    "a write to one of the two tensors is one to the other.",
    "clone() what is written to, before or after the reshape",
)
register_code(
    "C014",
    CompileError,
    "An exported function returned an object that holds tensors",
    "Results of a program may be tensors, numbers, and tuples, lists and dicts of them.",
    "return the tensors themselves",
)
register_code(
    "C015",
    CompileError,
    "A graph, kernel or plan breaks the rules of the IR",
    "RUSHLIGHT_VERIFY=1 checks the result of every pass, and edited stages are always checked. The message says which.",
    "if the stage was not edited this is a defect of Rushlight: please report it with the dump",
)
register_code(
    "C016",
    CompileError,
    "A function that was compiled with freeze=True changes a tensor that it reaches by itself",
    "Such tensors are constants of the program. Batch norm counts what it sees while it trains; an optimizer writes.",
    "call eval() on the module first, or compile without freeze=True",
)
register_code(
    "C017",
    ArgumentValueError,
    "The text of a shape specification is malformed",
    "docs/shapes.md has the grammar. The message names the column, counted from 1.",
)
register_code(
    "C018",
    ArgumentValueError,
    "A name in a shape specification stands for nothing",
    "Assumptions are about variables that occur in the arguments. A name is no word of the language.",
    "write the variable in the shape of an argument, or correct its name",
)
register_code(
    "C019",
    ArgumentValueError,
    "The assumptions of a shape specification contradict each other",
    "No sizes satisfy all of them, so no call could ever fit.",
)
register_code(
    "C020",
    ArgumentValueError,
    "A variable of a shape specification cannot be worked out from the arguments",
    "It must be a size of some tensor or an integer argument, or the one variable of a linear size such as 2*B + 1.",
    "give an argument whose size is the variable itself",
)
register_code(
    "C021",
    ArgumentValueError,
    "Shape specifications leave a hole in the domain",
    "There are sizes that the domain allows and no specification takes; the message shows some.",
    "add a specification that takes them, or narrow the domain",
)
register_code(
    "C022",
    ArgumentValueError,
    "Arguments do not fit a shape specification",
    "What was compiled holds for the specified arguments alone, so it is not run with others.",
)
register_code(
    "C023",
    CompileError,
    "A question about sizes was too hard to decide",
    "Products of variables, or very many assumptions, are beyond the procedure, which then gives no answer at all.",
    "state fewer or simpler assumptions",
)
register_code(
    "C024",
    ArgumentTypeError,
    "An assumption about sizes was used as a truth value",
    "Variables of a specification have no values: comparing them gives an assumption, neither true nor false.",
)
register_code(
    "C031",
    CompileError,
    "A branch or the body of a loop writes to a tensor from outside",
    "The functions given to cond, while_loop, scan and map are graphs of their own in a compiled function: they read "
    "what is around them, and what they change they return.",
    "compute a new tensor, and return it",
)
register_code(
    "C032",
    CompileError,
    "A branch or the body of a loop draws random numbers",
    "How many are drawn would be known only when the program runs, and with it what all later ones are.",
    "draw the numbers before, for all steps at once, and pass them in",
)
register_code(
    "C033",
    ArgumentValueError,
    "What the functions of a control flow operator return does not fit",
    "Both branches of cond return the same structure, dtypes and numbers of dims. A loop's body returns what it "
    "carries with the structure, dtypes and shapes that it was given.",
)
register_code(
    "C034",
    CompileError,
    "A function does something that an exported program cannot hold",
    "An exported program computes results from its arguments, and may write to these, to parameters and to buffers. "
    "Other side effects, and results that are neither tensors, numbers nor text, would be lost.",
)
register_code(
    "C035",
    ArgumentValueError,
    "What export is told of the arguments does not fit them",
    "`dynamic_shapes` is a specification, or it is nested as the arguments are: by their names or in their order, and "
    "for each dim of a tensor a Dim, an integer, or None for the size of the example.",
)
register_code(
    "C036",
    CompileError,
    "A compiled function meets a dispatch mode, a subclass of Tensor or a sparse gradient",
    "A mode within the function would see the operators of the first call, which is traced, and of no later one. "
    "A graph takes tensors of subclasses apart by `__tensor_flatten__`, and puts results together by "
    "`__tensor_unflatten__`: a class without these, a new one that requires gradients, or one that is put into a list "
    "or a module is refused. A sparse gradient from before the call has as many places as that call gave it.",
    "leave out fullgraph=True, and it runs uncompiled; export a function of the tensors that it holds",
)
register_code(
    "C037",
    CompileError,
    "A backend gives something else than its graph",
    "The callable that is given as `backend` gives a function of the graph's inputs. That function returns a tuple of"
    " as many tensors as the graph has results, each of the dtype and the sizes that calling the graph gives.",
    "compare with what graph(*inputs) gives, inside of the backend",
)
register_code(
    "C038",
    ArgumentValueError,
    "A graph of nodes is not well formed",
    "A node of `rl.fx` reads nodes of its own graph that come before it, names are there once, a node is erased when no"
    " other reads it, and the targets of attributes and modules are in the graph's module.",
)
register_code(
    "C039",
    CompileError,
    "A function is called that is kept out of graphs",
    "It is decorated with `rl.compiler.disable`, is `rl.compiler.graph_break`, or changes what later calls see, such as"
    " a seed. One graph cannot hold such a call.",
    "compile without fullgraph=True, or call the function before or after the compiled one",
)
register_code(
    "C040",
    CompileError,
    "A function would be compiled, which the stance forbids",
    'Under the stance "fail_on_recompile" calls run the graphs that there are. The reason says what is new.',
    "call the function with such arguments before the stance is set",
)
register_code(
    "C041",
    CompileError,
    "A generator or coroutine function is to be one graph",
    "Its body runs after the call, in pieces between which the program does other things. Without `fullgraph=True` it"
    " runs as it is, and what it calls may be compiled.",
    "compile the functions that it calls",
)

register_code(
    "C042",
    CompileError,
    "A compiled function gives a tensor that no graph can give",
    "A graph gives elements, and gradients to its inputs. A tensor that the function makes and that requires "
    "gradients, keeps one, or is a Parameter is new at each call, and so is what comes of it.",
    "make it outside of the compiled function, or compile without fullgraph=True",
)

register_code(
    "C043",
    CompileError,
    "A graph that is to be shrunk is not wrong",
    "What is looked for is a part of the graph whose compiled code gives other bits than its calls one by one. Here it "
    "gives the same. It may be wrong on other inputs, or in what the calls themselves give.",
    "give the script of a graph that fails on this machine; rushlight diff compares two scripts",
)
register_code(
    "C044",
    CompileError,
    "The loops of a graph are too long to evaluate",
    "To tell which pass makes a difference the stages of the compiler are evaluated in numpy, over all indices.",
    "shrink the graph first, or write a script of it with smaller inputs",
)

register_code(
    "K001",
    CacheWarning,
    "The cache folder cannot be used",
    "It cannot be created or written. Compiled code is kept in memory and compiled again by the next process.",
    "set RUSHLIGHT_CACHE_DIR to a folder that can be written",
)
register_code(
    "K002",
    CacheWarning,
    "A cache entry is corrupt",
    "The entry was ignored and removed, and its program compiled again.",
    "rushlight cache verify checks all entries",
)
register_code(
    "K003",
    CacheWarning,
    "A cache entry could not be written",
    "The disk is full, or the file system refused. The program goes on with what is in memory.",
    "rushlight cache clear makes room",
)
register_code(
    "K004",
    CacheError,
    "An archive of the cache cannot be written or read",
    "The file is missing, no archive of a cache, cut short or changed, or larger than the cache may be. Nothing was "
    "put into the cache.",
    "pack the cache again: rushlight cache pack FILE",
)
register_code(
    "K005",
    CacheError,
    "An archive of the cache is of no use here",
    "Compiled code is found by the processor that it was made for, llvmlite's version and the source of Rushlight. "
    "Nothing was put into the cache.",
    "pack it with the same versions; --adopt takes the code of a processor whose features this one has",
)
register_code(
    "K006",
    CacheWarning,
    "A record of tuning has no effect",
    "The line cannot be read, or names no choice that there is on this machine. The cost model's choice is taken.",
    "correct the line, or remove it: what is missing is measured again",
)

register_code(
    "P001",
    CheckpointFileError,
    "There is no such checkpoint",
    "The file or folder does not exist or cannot be read.",
)
register_code(
    "P002",
    CheckpointError,
    "A checkpoint is truncated or corrupt",
    "Its length or header does not fit its contents. Nothing was loaded or changed.",
)
register_code(
    "P003",
    CheckpointFileError,
    "A checkpoint could not be written",
    "The disk is full, or the file system refused. An earlier checkpoint of the same name is untouched.",
)
register_code(
    "P004",
    CheckpointError,
    "The entries of a state dict do not fit",
    "Keys are missing or unexpected, or tensors have other shapes.",
    "pass strict=False to load the entries that fit",
)
register_code(
    "P005",
    CheckpointError,
    "Not a checkpoint of this program",
    "The file is of another format, or was written by another program or configuration. Nothing was loaded.",
)
register_code(
    "P006",
    CheckpointError,
    "This cannot be saved",
    "Safetensors hold tensors, numbers, text, and dicts and lists of them. PyTorch's format also holds objects of "
    "classes, and functions by their names, which have to lead to them. Neither holds code.",
)
register_code(
    "P007",
    CheckpointFileError,
    "A run's folder is taken",
    "Something is there already, and it is not overwritten.",
    "choose another folder, or continue the run in it with --resume",
)
register_code(
    "P008",
    CheckpointFileError,
    "There is too little text to learn from",
    "The demo learns from the source files of Python's standard library, which this installation lacks.",
)

register_code(
    "P009",
    CheckpointError,
    "A checkpoint names code",
    "Its pickle uses a class or function that is not on the list of what loading knows. Nothing was executed.",
    "save the state_dict(); or allow a class that you trust with rl.serialization.add_safe_globals([...])",
)

register_code(
    "P010",
    CompileError,
    "A program needs Python",
    "A native package runs without an interpreter; branches and loops are code of it. Calls that only the host can run "
    "(LAPACK, custom operators, collectives), sizes that values decide, random numbers, and numbers that Python "
    "computes at each call are not in one yet.",
)
register_code(
    "P011",
    ArgumentValueError,
    "A package cannot be named so, or made for that",
    "The name begins the names of C functions, so it is an identifier; platforms are those of docs/packages.md.",
)

register_code(
    "T001",
    SettingError,
    "There is no such setting",
    "Every RUSHLIGHT_ environment variable must be one of those in docs/settings.md.",
)
register_code(
    "T002",
    SettingError,
    "A setting has a value that is not allowed",
    "docs/settings.md lists the values of each setting.",
)
register_code(
    "T003",
    SettingError,
    "There is no such log topic",
    "RUSHLIGHT_LOG is a list of topics, separated by commas.",
)
register_code(
    "T004",
    SettingError,
    "A file that a setting names cannot be read",
    "RUSHLIGHT_TUNING_TIMINGS names a file of timings that searches replay; a line's loss would change what they find.",
    "remove the line, or name a file that is not there yet",
)

register_code(
    "X001",
    InternalError,
    "A defect of Rushlight",
    "One of its own rules is broken.",
    "please report it with the lines above",
)
register_code(
    "X002",
    InternalError,
    "An operator's definition is inconsistent",
    "A rule's parameters do not fit its operator's schema, a rule is given twice, or one that is needed is missing.",
)
