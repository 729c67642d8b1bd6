// amp replay: options, the run over all cases, what is missing, the exit code.
#include "replay.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "amp/autocast.h"
#include "amp/cuda.h"
#include "amp/error.h"
#include "amp/scope.h"
#include "amp/system.h"
#include "command.h"
#include "replay_device.h"

namespace replay {

static const char help[] =
    "usage: amp replay [OPTION…] FOLDER\n"
    "\n"
    "Runs the recorded operator cases of FOLDER (NAME.json beside NAME.safetensors) and compares every result with "
    "its\n"
    "reference, within the recorded tolerance. Inputs must come out unchanged.\n"
    "\n"
    "  --device cpu|cuda     device under test (default: cpu). Cases of another device's regions are not run\n"
    "  --filter GLOB         only cases whose op, name (op/sample/mode) or FILE/name matches;\n"
    "                        @(this|that) and !(this|that) may be in it\n"
    "  --strided             lay the inputs out with an offset and strides; results must be the same (view_… ops, "
    "which are\n"
    "                        defined for some layouts only, keep theirs)\n"
    "  --allow-missing FILE  ops, or globs of op/sample/mode, that need not be implemented, one a line, # begins a "
    "comment.\n"
    "                        One that is implemented is an error: the list may only shrink\n"
    "  --allow-wrong FILE    cases whose recorded result is wrong, a glob of FILE/op/sample/mode a line, # begins the "
    "reason.\n"
    "                        A case of the list that passes is an error\n"
    "  --time                also time each op's largest f32 case that passes, called again and again\n"
    "  --load FILE           a shared object that defines ops of its own (amp/user.h), before anything else\n"
    "  --json                the report as JSON\n"
    "  --help                this text\n"
    "\n"
    "Exit code: 0 if no case failed and no op is missing but the allowed ones; 1 if not; 2 for wrong usage or bad "
    "files.\n";

// ---- Options ----

struct Usage : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The value of `--name value` or `--name=value`; nullptr if argv[*i] is another argument.
static const char *option_value(const char *name, int argc, char **argv, int *i) {
    const size_t length = std::strlen(name);
    if (std::strncmp(argv[*i], name, length) != 0) return nullptr;
    if (argv[*i][length] == '=') return argv[*i] + length + 1;
    if (argv[*i][length] != '\0') return nullptr;
    if (*i + 1 == argc) throw Usage("'" + std::string(name) + "' needs a value");
    return argv[++*i];
}

static amp_device parse_device(const std::string &name) {
    if (name == "cpu") return AMP_DEVICE_CPU;
    if (name == "cuda") return AMP_DEVICE_CUDA;
    throw Usage("'--device' takes 'cpu' or 'cuda', not '" + name + "'");
}

static Options parse_options(int argc, char **argv) {
    Options options;
    bool only_names = false;
    for (int i = 1; i < argc; i++) {
        const char *value = nullptr;
        const std::string word = argv[i];
        if (only_names || word.empty() || word[0] != '-') {
            if (!options.folder.empty())
                throw Usage("one FOLDER at a time: '" + options.folder + "' and '" + word + "' were given");
            options.folder = word;
        } else if (word == "--") {
            only_names = true;
        } else if (word == "--json") {
            options.json = true;
        } else if (word == "--strided") {
            options.strided = true;
        } else if (word == "--time") {
            options.time = true;
        } else if ((value = option_value("--device", argc, argv, &i))) {
            options.device = parse_device(value);
        } else if ((value = option_value("--filter", argc, argv, &i))) {
            options.filter = value;
        } else if ((value = option_value("--allow-missing", argc, argv, &i))) {
            options.allow_missing = value;
        } else if ((value = option_value("--load", argc, argv, &i))) {
            options.load.push_back(value);
        } else if ((value = option_value("--allow-wrong", argc, argv, &i))) {
            options.allow_wrong = value;
        } else {
            throw Usage("there is no option '" + word + "'");
        }
    }
    if (options.folder.empty()) throw Usage("FOLDER is missing");
    return options;
}

// ---- One case ----

struct Case {
    const CaseFile &file;
    const json_t *json;
    std::string name, op;
};

enum class Verdict { passed, failed, missing, wrong, other_device };

// Opens the region of a case and closes it again.
class Region {
  public:
    Region(const json_t *autocast, amp_device device) : device_(device) {
        if (json_is_null(autocast)) return;
        amp_autocast_args args = {};
        args.struct_size = sizeof args;
        args.device = device;
        args.dtype = dtype_field(autocast, "dtype");
        open_ = true;
        amp_autocast_enter(&args);
    }
    ~Region() {
        if (open_) amp_autocast_exit(device_);
    }
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;

  private:
    amp_device device_;
    bool open_ = false;
};

// Everything made for a case goes at its end, also when it throws.
struct Scope {
    Scope() {
        amp_scope_enter();
    }
    ~Scope() {
        amp_scope_exit();
        amp_clear_error();
    }
};

static bool belongs_to(const Case &c, amp_device device) {
    const json_t *autocast = json_object_get(c.json, "autocast");
    if (!autocast) throw Malformed("'autocast' is missing");
    return json_is_null(autocast) || text_field(autocast, "device") == amp_device_name(device);
}

void merge(Comparison *into, const Comparison &from, const std::string &where) {
    if (into->problem.empty() && !from.problem.empty()) into->problem = where + ": " + from.problem;
    into->ratio.add(from.ratio);
    into->gradients.add(from.gradients);
    if (from.share >= into->share) {
        into->share = from.share;
        into->error = from.error;
        into->torch_error = from.torch_error;
    }
}

static Comparison compare_outputs(const Case &c, const std::vector<amp_tensor *> &outputs, int count, bool is_list) {
    const json_t *expected = require(c.json, "outputs", JSON_ARRAY);
    const size_t recorded = json_array_size(expected);
    Comparison all;
    if (is_list ? static_cast<size_t>(count) != recorded : static_cast<size_t>(count) < recorded) {
        all.problem = "expected " + std::to_string(recorded) + " outputs, got " + std::to_string(count);
        return all;
    }
    for (size_t i = 0; i < recorded; i++) {
        merge(&all, compare_output(c.file, json_array_get(expected, i), outputs[i]), "output " + std::to_string(i));
    }
    return all;
}

static void compare_inputs(const Case &c, const Arguments &arguments, Comparison *all) {
    const json_t *after = json_object_get(c.json, "after");
    for (const auto &input : arguments.inputs) {
        const json_t *expected = json_object_get(after, input->argument.c_str());
        if (expected) {
            merge(all, compare_after(c.file, expected, input->tensor), input->argument + " afterwards");
        } else if (input->memory != input->before && all->problem.empty()) {
            all->problem = input->argument + " was changed by the call";
        }
    }
}

// Room for the results of a case, and for those of a wrong number of them.
static std::vector<amp_tensor *> room_for_outputs(const Case &c) {
    return std::vector<amp_tensor *>(json_array_size(require(c.json, "outputs", JSON_ARRAY)) + 8);
}

static amp_status call(const Case &c, const Arguments &arguments, std::vector<amp_tensor *> *outputs, int *count) {
    return amp_call_op(c.op.c_str(), arguments.list.data(), static_cast<int>(arguments.list.size()), outputs->data(),
                       static_cast<int>(outputs->size()), count);
}

// Puts the tensors among the arguments on the device, in the layout that they have here.
static void move_to_device(amp_device device, Arguments *arguments) {
    std::map<const amp_tensor *, amp_tensor *> moved;
    for (const auto &input : arguments->inputs) {
        amp_tensor *t = replay_to_device(device, input->tensor, input->memory.data() + input->start,
                                         input->memory.size() - input->start, &input->on_device);
        if (!t) throw std::runtime_error(amp_last_error());
        moved[input->tensor] = t;
    }
    for (amp_argument &a : arguments->list) {
        if (a.value.kind != AMP_VALUE_TENSOR || !a.value.as.tensor) continue;
        const auto found = moved.find(a.value.as.tensor);
        a.value.as.tensor = found != moved.end() ? found->second : replay_move(a.value.as.tensor, device);
    }
    for (const auto &list : arguments->lists) {
        for (amp_tensor *&t : *list) t = t ? moved.at(t) : nullptr;
    }
}

static void move_back(const Arguments &arguments, std::vector<amp_tensor *> *outputs, int count) {
    for (int i = 0; i < count && i < static_cast<int>(outputs->size()); i++) {
        amp_tensor *&t = (*outputs)[static_cast<size_t>(i)];
        if (t) t = replay_move(t, AMP_DEVICE_CPU);
    }
    for (const auto &input : arguments.inputs) {
        if (!replay_from_device(input->on_device, input->memory.data() + input->start)) {
            throw std::runtime_error(amp_last_error());
        }
    }
}

static Verdict run_case(const Case &c, const Options &options, Comparison *all) {
    if (is_program(c.json)) {
        if (options.device != AMP_DEVICE_CPU) return Verdict::other_device;
        Scope whole;
        run_program(c.file, c.json, all);
        if (amp_last_status() == AMP_ERROR_NOT_IMPLEMENTED) return Verdict::missing; // an op has no gradient yet
        return all->problem.empty() ? Verdict::passed : Verdict::failed;
    }
    const json_t *inputs = require(c.json, "inputs", JSON_OBJECT);
    std::vector<amp_tensor *> outputs = room_for_outputs(c);
    if (!belongs_to(c, options.device)) return Verdict::other_device;
    Scope scope;
    Arguments arguments = make_arguments(c.file, c.op, inputs, options.strided);
    if (options.device != AMP_DEVICE_CPU) move_to_device(options.device, &arguments);
    const bool has_gradients = options.device == AMP_DEVICE_CPU && records_gradients(c.json);
    if (has_gradients) require_gradients(arguments);
    int count = 0;
    amp_status status;
    {
        Region region(json_object_get(c.json, "autocast"), options.device);
        status = call(c, arguments, &outputs, &count);
    }
    if (status == AMP_ERROR_NOT_IMPLEMENTED || (status != AMP_OK && !op_is_known(c.op.c_str())))
        return Verdict::missing;
    if (status != AMP_OK) {
        all->problem = amp_last_error();
        return Verdict::failed;
    }
    if (options.device != AMP_DEVICE_CPU) move_back(arguments, &outputs, count);
    *all = compare_outputs(c, outputs, count, op_returns_list(c.op.c_str()));
    compare_inputs(c, arguments, all);
    if (has_gradients && !compare_gradients(c.file, c.json, arguments, outputs, all)) return Verdict::missing;
    return all->problem.empty() ? Verdict::passed : Verdict::failed;
}

// ---- Timing ----

// Of one thread, the CPU's, which other programs change less.
static double seconds(amp_device device) {
    timespec now = {};
    const bool own = device == AMP_DEVICE_CPU && amp_get_num_threads() == 1;
    clock_gettime(own ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

static int64_t elements_of(const json_t *value) {
    int64_t elements = json_object_get(value, "shape") ? 1 : 0;
    if (elements) {
        for (int64_t extent : shape_field(value)) elements *= extent;
    }
    for (size_t i = 0; i < json_array_size(value); i++) elements += elements_of(json_array_get(value, i));
    return elements;
}

// Elements of all tensors among the inputs, of the outputs where there are none; 0 for a case that is not to be timed.
static int64_t timed_size(const Case &c) {
    static const std::string mode = "/off-f32";
    const bool f32 = c.name.size() > mode.size() && c.name.compare(c.name.size() - mode.size(), mode.size(), mode) == 0;
    int64_t elements = 0;
    bool has_tensors = false;
    const char *key;
    json_t *value;
    if (!f32) return 0;
    json_object_foreach(const_cast<json_t *>(require(c.json, "inputs", JSON_OBJECT)), key, value) {
        const json_t *first = json_is_array(value) ? json_array_get(value, 0) : value;
        has_tensors = has_tensors || json_object_get(first, "tensor");
        elements += elements_of(value);
    }
    return has_tensors ? elements : elements_of(json_object_get(c.json, "outputs"));
}

// Seconds that `calls` calls of the case take. Every one must have worked: an error returns sooner than a result.
static double time_calls(const Case &c, amp_device device, const Arguments &arguments,
                         std::vector<amp_tensor *> *outputs, int calls) {
    const double start = seconds(device);
    for (int i = 0; i < calls; i++) {
        Scope scope;
        int count = 0;
        if (call(c, arguments, outputs, &count) != AMP_OK) throw std::runtime_error(amp_last_error());
    }
    if (device == AMP_DEVICE_CUDA) amp_cuda_synchronize();
    return seconds(device) - start;
}

// Median time of a call over rounds of at least a millisecond.
static double nanoseconds_of(const Case &c, amp_device device) {
    enum { rounds = 21 };
    Scope scope;
    Arguments arguments = make_arguments(c.file, c.op, require(c.json, "inputs", JSON_OBJECT), false);
    if (device != AMP_DEVICE_CPU) move_to_device(device, &arguments);
    std::vector<amp_tensor *> outputs = room_for_outputs(c);
    std::vector<double> times(rounds);
    int calls = 1;
    while (time_calls(c, device, arguments, &outputs, calls) < 1e-3 && calls < 1 << 20) calls *= 2;
    for (double &time : times) time = time_calls(c, device, arguments, &outputs, calls) / calls * 1e9;
    std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
    return times[rounds / 2];
}

// The largest case of each op.
using Largest = std::map<std::string, std::pair<int64_t, Case>>;

static void time_largest(const Largest &largest, amp_device device, Results *results) {
    for (const auto &[op, entry] : largest) {
        const Case &c = entry.second;
        results->ops[op].timed_case = c.file.name + "/" + c.name;
        results->ops[op].nanoseconds = nanoseconds_of(c, device);
    }
}

// ---- All cases ----

#ifndef FNM_EXTMATCH /* @(this|that) and !(this|that), of glibc */
#define FNM_EXTMATCH 0
#endif
static bool selected(const Case &c, const std::string &filter) {
    if (filter.empty()) return true;
    const std::string full = c.file.name + "/" + c.name;
    for (const std::string *text : {&c.op, &c.name, &full}) {
        if (fnmatch(filter.c_str(), text->c_str(), FNM_EXTMATCH) == 0) return true;
    }
    return false;
}

static void count_case(const Case &c, Verdict verdict, const Comparison &comparison, Results *results) {
    if (verdict == Verdict::other_device) {
        results->other_device++;
        return;
    }
    OpResult &op = results->ops[c.op];
    op.cases++;
    (verdict == Verdict::missing ? op.missing_cases : op.present_cases).push_back(c.name);
    if (verdict == Verdict::missing) op.missing++;
    if (verdict == Verdict::wrong) op.wrong++;
    if (verdict == Verdict::passed) op.passed++;
    if (verdict == Verdict::failed) {
        op.failed++;
        results->failures.push_back({c.file.name, c.name, c.op, comparison.problem});
    }
    if (verdict != Verdict::wrong) {
        op.ratio.add(comparison.ratio);
        results->gradients[c.file.name].add(comparison.gradients);
        results->gradients_of_ops[c.op].add(comparison.gradients);
    }
    if (verdict != Verdict::missing && verdict != Verdict::wrong &&
        (op.worst_case.empty() || comparison.share > op.worst.share)) {
        op.worst = comparison;
        op.worst_case = c.file.name + "/" + c.name;
    }
}

// A kernel that crashes takes the tool with it: say at least in which case.
static char current_case[200];

static void report_crash(int signal_number) {
    static const char text[] = "\namp replay: crashed in ";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    (void)!write(STDERR_FILENO, current_case, strnlen(current_case, sizeof current_case));
    (void)!write(STDERR_FILENO, "\n", 1);
    raise(signal_number); // SA_RESETHAND: the default action now
}

static void install_crash_report() {
    struct sigaction action = {};
    action.sa_handler = report_crash;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    for (int signal_number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
        struct sigaction present = {};
        sigaction(signal_number, nullptr, &present); // a sanitizer's handler tells more than ours
        if (present.sa_handler == SIG_DFL) sigaction(signal_number, &action, nullptr);
    }
}

static void show_progress(size_t done, size_t total, const Case &c) {
    std::snprintf(current_case, sizeof current_case, "%s/%s", c.file.name.c_str(), c.name.c_str());
    if (!isatty(STDERR_FILENO)) return;
    std::fprintf(stderr, "\r\033[K%zu/%zu %s/%.60s", done, total, c.file.name.c_str(), c.name.c_str());
}

static void end_progress() {
    if (isatty(STDERR_FILENO)) std::fputs("\r\033[K", stderr);
}

// A case whose recorded result is wrong must fail, or it does not belong on the list.
static Verdict excuse(const Case &c, Verdict verdict, const std::set<std::string> &wrong, Results *results) {
    const std::string full = c.file.name + "/" + c.name;
    for (const std::string &pattern : wrong) {
        if (fnmatch(pattern.c_str(), full.c_str(), 0) != 0) continue;
        if (verdict == Verdict::failed) return Verdict::wrong;
        if (verdict == Verdict::passed) results->right.insert(full);
    }
    return verdict;
}

static void keep_largest(const Case &c, Largest *largest) {
    const int64_t size = timed_size(c);
    const auto found = largest->find(c.op);
    if (size == 0 || (found != largest->end() && found->second.first >= size)) return;
    if (found != largest->end()) largest->erase(found);
    largest->emplace(c.op, std::make_pair(size, c));
}

static void run_one(const CaseFile &file, const json_t *json, const Options &options,
                    const std::set<std::string> &wrong, std::set<std::string> *names, Results *results,
                    Largest *largest, size_t number, size_t total) {
    Case c = {file, json, "?", "?"};
    try {
        c.name = text_field(json, "name");
        c.op = is_program(json) ? "program" : text_field(json, "op");
        if (!names->insert(c.name).second) throw Malformed("the name is given twice");
        if (!selected(c, options.filter)) return;
        show_progress(number, total, c);
        Comparison comparison;
        const Verdict verdict = excuse(c, run_case(c, options, &comparison), wrong, results);
        count_case(c, verdict, comparison, results);
        if (options.time && verdict == Verdict::passed) keep_largest(c, largest);
    } catch (const Malformed &problem) {
        const std::string place = c.name == "?" ? "case " + std::to_string(number) : c.name;
        results->failures.push_back({file.name, place, c.op, std::string("malformed case: ") + problem.what()});
        results->malformed++;
    }
}

static Results run_all(const std::vector<CaseFile> &files, const Options &options, const std::set<std::string> &wrong) {
    Results results;
    Largest largest;
    size_t total = 0, number = 0;
    for (const CaseFile &file : files) total += json_array_size(file.cases.get());
    for (const CaseFile &file : files) {
        std::set<std::string> names;
        for (size_t i = 0; i < json_array_size(file.cases.get()); i++) {
            run_one(file, json_array_get(file.cases.get(), i), options, wrong, &names, &results, &largest, ++number,
                    total);
        }
    }
    time_largest(largest, options.device, &results);
    end_progress();
    return results;
}

// ---- The lists that may only shrink ----

static std::string list_problem(const std::string &path, int number, const std::string &line, const char *problem) {
    std::ostringstream text;
    text << path << ":" << number << ": '" << line << "': " << problem;
    return text.str();
}

// Lines without comments; `check` says what is wrong with one, or nullptr.
static std::set<std::string> read_list(const std::string &path, const char *(*check)(const std::string &line)) {
    std::set<std::string> lines;
    if (path.empty()) return lines;
    std::ifstream in(path);
    if (!in) throw Malformed(path + ": cannot read the list");
    int number = 0;
    for (std::string line; std::getline(in, line);) {
        number++;
        line = line.substr(0, line.find('#'));
        line.erase(line.find_last_not_of(" \t\r") + 1);
        line.erase(0, line.find_first_not_of(" \t"));
        if (line.empty()) continue;
        const char *problem = check(line);
        if (!problem && !lines.insert(line).second) problem = "listed twice";
        if (problem) throw Malformed(list_problem(path, number, line, problem));
    }
    return lines;
}

static const char *check_op(const std::string &line) {
    const std::string op = line.substr(0, line.find('/'));
    return op == "program" || op_is_known(op.c_str()) ? nullptr : "there is no such op";
}

static const char *check_case(const std::string &line) {
    return line.find('/') == std::string::npos ? "expected FILE/op/sample/mode" : nullptr;
}

// An op of the list, or a glob of cases, op/sample/mode, where an op is implemented in part.
static bool covers(const std::string &line, const std::string &op, const std::string &name) {
    return line == op || fnmatch(line.c_str(), name.c_str(), 0) == 0;
}

static void judge_missing(const std::set<std::string> &allowed, Results *results) {
    for (const auto &[name, op] : results->ops) {
        std::set<std::string> uncovered(op.missing_cases.begin(), op.missing_cases.end());
        for (const std::string &line : allowed) {
            const auto is_covered = [&, op_name = name](const std::string &c) { return covers(line, op_name, c); };
            const auto &present = op.present_cases;
            const bool in_part = std::any_of(present.begin(), present.end(), is_covered);
            const bool whole = line == name;
            if (in_part && (!whole || op.missing == 0)) results->stale.insert(line);
            for (const std::string &c : op.missing_cases) {
                if (is_covered(c)) uncovered.erase(c);
            }
        }
        if (op.missing > 0) results->missing.insert(name);
        if (!uncovered.empty()) results->not_allowed.insert(name);
    }
}

static int run(const Options &options) {
    for (const std::string &file : options.load) {
        if (!amp_tool_load("replay", file.c_str())) return AMP_EXIT_USAGE;
    }
    require_device(options.device);
    install_crash_report();
    const std::set<std::string> allowed = read_list(options.allow_missing, check_op);
    const std::set<std::string> wrong = read_list(options.allow_wrong, check_case);
    Results results = run_all(load_folder(options.folder), options, wrong);
    judge_missing(allowed, &results);
    if (results.ops.empty() && results.malformed == 0 && results.other_device == 0) {
        throw Malformed("no case matches the filter '" + options.filter + "'");
    }
    const bool held =
        results.failures.empty() && results.not_allowed.empty() && results.stale.empty() && results.right.empty();
    const int exit_code = results.malformed ? AMP_EXIT_USAGE : held ? AMP_EXIT_OK : AMP_EXIT_FAILED;
    if (options.json) {
        print_json(options, results, exit_code);
    } else {
        print_table(options, results);
    }
    return exit_code;
}

} // namespace replay

int amp_command_replay(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
            std::fputs(replay::help, stdout);
            return AMP_EXIT_OK;
        }
    }
    try {
        return replay::run(replay::parse_options(argc, argv));
    } catch (const replay::Usage &problem) {
        std::fprintf(stderr, "amp replay: %s\nTry 'amp replay --help'.\n", problem.what());
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "amp replay: %s\n", problem.what());
    }
    return AMP_EXIT_USAGE;
}
