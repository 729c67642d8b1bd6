// The table that tools/gen_ops.py makes of ops.def: policies by name, recorded calls, lookup, layout, defaults.
#include "policy/op_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "amp/ops.h"
#include "generated/op_ids.h"

namespace {

using Names = std::map<std::string, amp_policy>;

void add(Names &names, amp_policy policy, const char *list) {
    std::istringstream stream(list);
    for (std::string name; stream >> name;) EXPECT_TRUE(names.emplace(name, policy).second) << name << " twice";
}

// Ops that PyTorch keeps for its compiler, which makes them after autocast: they follow the op that they contain.
const char *const fused = "linear_pointwise convolution_pointwise convolution_transpose_pointwise";
// What the layers of recurrent networks are made of.
const char *const steps = "rnn_pass rnn_pass_backward";

// SEMANTICS 5. `lstm gru rnn_tanh rnn_relu` are rnn_layer's members, `cross_entropy` is cross_entropy_loss.
Names cpu_policies() {
    Names names;
    add(names, AMP_POLICY_LOWER, R"(
        conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc bmm mm baddbmm addmm addbmm
        linear matmul prelu linalg_vecdot addmm_activation scaled_dot_product_attention native_multi_head_attention
        rnn_layer lstm gru rnn_tanh rnn_relu)");
    add(names, AMP_POLICY_FP32, R"(
        avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d max_pool3d max_unpool2d max_unpool3d fractional_max_pool2d
        fractional_max_pool3d reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d replication_pad3d
        grid_sampler grid_sampler_2d grid_sampler_3d polar prod quantile nanquantile stft cdist trace view_as_complex
        binary_cross_entropy binary_cross_entropy_with_logits mse_loss cosine_embedding_loss nll_loss nll_loss2d
        hinge_embedding_loss poisson_nll_loss smooth_l1_loss cross_entropy cross_entropy_loss l1_loss huber_loss
        margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss ctc_loss kl_div
        multilabel_margin_loss multilabel_margin_loss_forward
        fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn
        fft_irfftn fft_hfft fft_ihfft
        cholesky cholesky_inverse cholesky_solve inverse lu_solve lu_with_info matrix_rank orgqr ormqr pinverse qr
        geqrf svd symeig eig lstsq triangular_solve linalg_cond linalg_matrix_rank linalg_solve linalg_cholesky
        linalg_cholesky_ex linalg_svdvals linalg_eigvals linalg_eigvalsh linalg_inv linalg_inv_ex
        linalg_householder_product linalg_tensorinv linalg_tensorsolve linalg_qr linalg_svd linalg_eig linalg_eigh
        linalg_lstsq fake_quantize_per_tensor_affine)");
    add(names, AMP_POLICY_PROMOTE, "cat stack index_copy");
    // steps of ops that have these policies, and of their gradients
    add(names, AMP_POLICY_LOWER, steps);
    add(names, AMP_POLICY_FP32, "cross_entropy_backward nll_loss_backward");
    add(names, AMP_POLICY_LOWER, fused);
    // falling through, and made of ops that do not
    add(names, AMP_POLICY_PARTS, R"(
        einsum tensordot linalg_multi_dot chain_matmul lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell interpolate
        cov corrcoef max_unpool1d linalg_matrix_power matrix_power linalg_pinv)");
    return names;
}

// SEMANTICS 6, and what the recorded cases add to it: addmm_activation, native_multi_head_attention and the RNN layers.
Names cuda_policies() {
    Names names;
    add(names, AMP_POLICY_LOWER, R"(
        conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d prelu addmm addmv addr matmul
        einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot lstm_cell gru_cell
        rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention
        addmm_activation native_multi_head_attention rnn_layer lstm gru rnn_tanh rnn_relu)");
    add(names, AMP_POLICY_FP32, R"(
        acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm rms_norm
        group_norm frobenius_norm nuclear_norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss
        nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
        multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits
        dist pdist cdist renorm logsumexp interpolate upsample_nearest1d upsample_nearest2d upsample_nearest3d
        upsample_nearest_exact1d upsample_nearest_exact2d upsample_nearest_exact3d upsample_linear1d
        upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d upsample_bilinear2d_aa upsample_bicubic2d_aa)");
    add(names, AMP_POLICY_FP32_SET_OPT_DTYPE,
        "prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum");
    add(names, AMP_POLICY_FP32_APPEND_DTYPE, "norm");
    add(names, AMP_POLICY_PROMOTE, R"(
        addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler grid_sampler_2d grid_sampler_3d index_put tensordot
        scatter_add cat stack equal)");
    add(names, AMP_POLICY_BANNED, "binary_cross_entropy");
    add(names, AMP_POLICY_LOWER, steps);
    add(names, AMP_POLICY_LOWER, fused);
    // falling through, and made of ops that do not
    add(names, AMP_POLICY_PARTS, R"(
        ldexp trapezoid cov corrcoef gaussian_nll_loss multilabel_soft_margin_loss linalg_matrix_power matrix_power
        linalg_vander linalg_pinv linalg_norm)");
    return names;
}

// Where apex.amp's lists say something else than PyTorch's CUDA table.
Names apex_exceptions() {
    Names names;
    add(names, AMP_POLICY_FP32, R"(
        softmax log_softmax softmin cumprod cumsum prod sum norm std var local_response_norm normalize cross_entropy
        cross_entropy_loss)");
    add(names, AMP_POLICY_PROMOTE, "add sub mul div eq ne lt le gt ge");
    return names;
}

const amp_op_info *rows() {
    return amp_op_table;
}

std::string key(const amp_op_info &op) {
    return op.overload[0] ? std::string(op.name) + "." + op.overload : std::string(op.name);
}

// Every name of `expected` exists, every overload in the table has its policy, and all else falls through.
void expect_policies(const Names &expected, amp_table table, amp_device device) {
    for (const auto &entry : expected) EXPECT_NE(amp_op_find(entry.first.c_str()), nullptr) << entry.first;
    for (int i = 0; i < amp_op_count; i++) {
        const auto found = expected.find(rows()[i].name);
        const amp_policy policy = found == expected.end() ? AMP_POLICY_FALLTHROUGH : found->second;
        EXPECT_EQ(rows()[i].policy[table][device].policy, policy) << key(rows()[i]);
    }
}

const amp_arg_info *find_arg(const amp_op_info &op, const std::string &name) {
    for (int i = 0; i < op.arg_count; i++) {
        if (op.args[i].kind != AMP_ARG_OUTPUT && name == op.args[i].name) return &op.args[i];
    }
    return nullptr;
}

// Which recorded kinds of value an argument takes; see recorded_calls.inc.
const char *accepted(amp_arg_kind kind) {
    switch (kind) {
    case AMP_ARG_TENSOR: return "TIM"; // integers become an integer tensor
    case AMP_ARG_TENSOR_LIST: return "L";
    case AMP_ARG_SCALAR: return "ifb";
    case AMP_ARG_FLOAT:
    case AMP_ARG_OPT_FLOAT: return "if";
    case AMP_ARG_INT:
    case AMP_ARG_OPT_INT: return "i";
    case AMP_ARG_BOOL:
    case AMP_ARG_OPT_BOOL: return "b";
    case AMP_ARG_DIMS: return "iIP";
    case AMP_ARG_FLOATS: return "ifI";
    case AMP_ARG_DTYPE: return "d";
    case AMP_ARG_STRING: return "s";
    case AMP_ARG_GENERATOR:
    case AMP_ARG_OUTPUT: break;
    }
    return "";
}

bool fits(const amp_op_info &op, const std::string &arguments) {
    std::istringstream stream(arguments);
    std::set<std::string> given;
    for (std::string item; stream >> item;) {
        const size_t colon = item.find(':');
        const amp_arg_info *arg = find_arg(op, item.substr(0, colon));
        if (!arg || !std::strchr(accepted(arg->kind), item[colon + 1])) return false;
        given.insert(arg->name);
    }
    for (int i = 0; i < op.arg_count; i++) {
        if ((op.args[i].flags & AMP_ARG_REQUIRED) && !given.count(op.args[i].name)) return false;
    }
    return true;
}

struct RecordedCall {
    const char *op, *arguments;
};

const RecordedCall recorded_calls[] = {
#include "recorded_calls.inc"
};

struct RowForms {
    const char *row, *forms;
};

const RowForms pytorch_forms[] = {
#include "pytorch_forms.inc"
};

// What PyTorch has and libamp has not, and why.
const std::map<std::string, std::string> forms_left_out = {
    {"native_multi_head_attention", "its weights are a result only where need_weights is set"},
};

size_t field_size(amp_arg_kind kind) {
    static const size_t sizes[] = {
        sizeof(amp_tensor *),  sizeof(amp_tensor_list), sizeof(amp_scalar),
        sizeof(double),        sizeof(int64_t),         sizeof(bool),
        sizeof(amp_opt_float), sizeof(amp_opt_int),     sizeof(amp_opt_bool),
        sizeof(amp_dims),      sizeof(amp_floats),      sizeof(amp_dtype),
        sizeof(const char *),  sizeof(amp_generator *), sizeof(amp_tensor **),
    };
    return sizes[kind];
}

} // namespace

TEST(OpTable, CpuPoliciesAreExactlyThoseOfTheTorchTable) {
    expect_policies(cpu_policies(), AMP_TABLE_TORCH, AMP_DEVICE_CPU);
}

TEST(OpTable, CudaPoliciesAreExactlyThoseOfTheTorchTable) {
    expect_policies(cuda_policies(), AMP_TABLE_TORCH, AMP_DEVICE_CUDA);
}

TEST(OpTable, IpexAddsGroupNormOnTheCpuAndNothingElse) {
    Names cpu = cpu_policies();
    add(cpu, AMP_POLICY_LOWER, "group_norm");
    expect_policies(cpu, AMP_TABLE_IPEX, AMP_DEVICE_CPU);
    expect_policies(cuda_policies(), AMP_TABLE_IPEX, AMP_DEVICE_CUDA);
}

TEST(OpTable, ApexFollowsItsListsOnBothDevices) {
    const Names cuda = cuda_policies(), exceptions = apex_exceptions();
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info &op = rows()[i];
        auto found = exceptions.find(op.name);
        // apex promotes tensors of different types; a number beside a tensor leaves the tensor's type alone
        const bool scalar = !std::strcmp(op.overload, "scalar");
        const bool excepted = found != exceptions.end() && !(found->second == AMP_POLICY_PROMOTE && scalar);
        if (!excepted) found = cuda.find(op.name);
        const amp_policy policy = excepted || found != cuda.end() ? found->second : AMP_POLICY_FALLTHROUGH;
        for (int device = 0; device < AMP_DEVICE_COUNT; device++) {
            EXPECT_EQ(op.policy[AMP_TABLE_APEX][device].policy, policy) << key(op);
        }
    }
}

TEST(OpTable, OnlyInterpolateDependsOnAnArgument) {
    const std::map<std::string, std::string> expected = {{"torch cuda interpolate", "unless mode=area"},
                                                         {"ipex cuda interpolate", "unless mode=area"},
                                                         {"torch cpu interpolate", "if mode=area"},
                                                         {"ipex cpu interpolate", "if mode=area"}};
    std::map<std::string, std::string> found;
    for (int i = 0; i < amp_op_count; i++) {
        for (int table = 0; table < AMP_TABLE_COUNT; table++) {
            for (int device = 0; device < AMP_DEVICE_COUNT; device++) {
                const amp_policy_cell &cell = rows()[i].policy[table][device];
                if (!cell.argument) continue;
                const char *const tables[] = {"torch", "ipex", "apex"};
                const std::string where =
                    std::string(tables[table]) + " " + amp_device_name(amp_device(device)) + " " + rows()[i].name;
                found[where] = std::string(cell.if_equal ? "if " : "unless ") + cell.argument + "=" + cell.value;
            }
        }
    }
    EXPECT_EQ(found, expected);
}

TEST(OpTable, EveryRecordedCallFitsAnOverload) {
    for (const RecordedCall &call : recorded_calls) {
        const amp_op_info *op = amp_op_find(call.op);
        ASSERT_NE(op, nullptr) << call.op;
        bool found = false;
        for (int i = op->id; i < amp_op_count && !std::strcmp(rows()[i].name, call.op); i++) {
            found = found || fits(rows()[i], call.arguments);
        }
        EXPECT_TRUE(found) << call.op << " " << call.arguments;
    }
}

TEST(OpTable, IdsArePlacesAndOverloadsStandTogether) {
    ASSERT_EQ(amp_op_count, AMP_OP_ID_COUNT);
    std::set<std::string> finished, c_names;
    for (int i = 0; i < amp_op_count; i++) {
        EXPECT_EQ(rows()[i].id, i);
        EXPECT_TRUE(c_names.insert(rows()[i].c_name).second) << rows()[i].c_name;
        if (i > 0 && std::strcmp(rows()[i].name, rows()[i - 1].name) != 0) {
            EXPECT_TRUE(finished.insert(rows()[i - 1].name).second) << rows()[i - 1].name;
        }
    }
}

TEST(OpTable, FindsNamesAndOverloads) {
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info *op = &rows()[i];
        if (op->overload[0]) {
            EXPECT_EQ(amp_op_find(key(*op).c_str()), op);
        }
        const amp_op_info *first = amp_op_find(op->name);
        ASSERT_NE(first, nullptr) << op->name;
        EXPECT_STREQ(first->name, op->name);
        EXPECT_TRUE(first == rows() || std::strcmp(first[-1].name, op->name) != 0) << op->name << ": not the first";
    }
    EXPECT_EQ(amp_op_find("add.scalar"), &rows()[AMP_OP_ID_add_scalar]);
    EXPECT_EQ(amp_op_find("max"), &rows()[AMP_OP_ID_max]);
}

TEST(OpTable, DoesNotFindWhatIsNotThere) {
    for (const char *name :
         {"", "a", "ad", "adds", "add.", "add.tensors", ".scalar", "Add", "add ", "zzz", "~", "\xc3"}) {
        EXPECT_EQ(amp_op_find(name), nullptr) << name;
    }
    EXPECT_EQ(amp_op_find(nullptr), nullptr);
}

TEST(OpTable, FieldsLieApartInsideTheirStruct) {
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info &op = rows()[i];
        ASSERT_GT(op.arg_count, 0);
        ASSERT_LE(op.arg_count, AMP_MAX_ARGS);
        size_t end = sizeof(size_t); // struct_size comes first, then further results, then the arguments
        for (const bool outputs : {true, false}) {
            for (int a = 0; a < op.arg_count; a++) {
                if ((op.args[a].kind == AMP_ARG_OUTPUT) != outputs) continue;
                EXPECT_GE(op.args[a].offset, end) << key(op) << " " << op.args[a].name;
                end = op.args[a].offset + field_size(op.args[a].kind);
            }
        }
        EXPECT_LE(end, op.args_size) << key(op);
        EXPECT_EQ(end, op.args_used) << key(op);
        EXPECT_LT(op.args_size - end, alignof(std::max_align_t)) << key(op);
    }
}

TEST(OpTable, OutputFieldsAreTheFurtherResults) {
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info &op = rows()[i];
        int outputs = 0;
        for (int a = 0; a < op.arg_count; a++) {
            if (op.args[a].kind == AMP_ARG_OUTPUT) {
                outputs++;
            } else {
                EXPECT_EQ(outputs, 0) << key(op) << ": " << op.args[a].name << " stands after an output";
            }
        }
        ASSERT_LE(op.output_count, AMP_MAX_OUTPUTS);
        EXPECT_EQ(outputs, op.flags & AMP_OP_RETURNS_LIST ? 0 : op.output_count - 1) << key(op);
    }
    EXPECT_STREQ(rows()[AMP_OP_ID_max_pool2d].args[7].name, "indices");
    EXPECT_STREQ(rows()[AMP_OP_ID_symeig].args[3].name, "out_eigenvectors");
}

TEST(OpTable, FormsFitTheOp) {
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info &op = rows()[i];
        EXPECT_TRUE(op.forms & AMP_FORM_FUNCTION) << key(op);
        if (op.forms & AMP_FORM_INPLACE) {
            EXPECT_EQ(op.args[0].kind, AMP_ARG_TENSOR) << key(op);
        }
        if (op.forms & AMP_FORM_INPLACE) {
            EXPECT_EQ(op.output_count, 1) << key(op);
        }
        if (op.forms & AMP_FORM_OUT) {
            EXPECT_FALSE(op.flags & (AMP_OP_VIEW | AMP_OP_RETURNS_LIST)) << key(op);
            const std::string schema = op.schema, result = op.result;
            EXPECT_EQ(op.output_count == 1, result == "out" && schema.find("-> Tensor") != schema.npos) << key(op);
            EXPECT_EQ(op.output_count > 1, schema.find("-> (Tensor " + result + ", ") != schema.npos) << key(op);
        }
        if (op.forms != AMP_FORM_FUNCTION) {
            EXPECT_FALSE(op.flags & AMP_OP_RETURNS_LIST) << key(op);
        }
    }
    EXPECT_EQ(rows()[AMP_OP_ID_add].forms, unsigned(AMP_FORM_FUNCTION | AMP_FORM_INPLACE | AMP_FORM_OUT));
    EXPECT_EQ(rows()[AMP_OP_ID_mm].forms, unsigned(AMP_FORM_FUNCTION | AMP_FORM_OUT));
    EXPECT_EQ(rows()[AMP_OP_ID_conv2d].forms, unsigned(AMP_FORM_FUNCTION));
}

TEST(OpTable, RowsHaveTheFormsThatPyTorchHas) {
    size_t left_out = 0;
    for (const RowForms &expected : pytorch_forms) {
        const amp_op_info *op = amp_op_find(expected.row);
        ASSERT_NE(op, nullptr) << expected.row << ": run tools/list_pytorch_forms.py";
        const std::string forms = expected.forms;
        unsigned wanted = 0;
        if (forms[0] == '_') wanted |= AMP_FORM_INPLACE;
        if (forms.find("out") != std::string::npos) wanted |= AMP_FORM_OUT;
        const bool has_them = (op->forms & wanted) == wanted, excused = forms_left_out.count(expected.row) != 0;
        EXPECT_NE(has_them, excused) << expected.row << " has in PyTorch " << forms;
        left_out += excused;
    }
    EXPECT_EQ(left_out, forms_left_out.size());
}

TEST(OpTable, AliasesHaveTheLayoutOfTheirTarget) {
    int aliases = 0;
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info &op = rows()[i];
        if (!op.alias_of) continue;
        aliases++;
        const amp_op_info *target = amp_op_find(op.alias_of);
        ASSERT_NE(target, nullptr) << op.alias_of;
        EXPECT_EQ(target->alias_of, nullptr);
        EXPECT_EQ(target->args_size, op.args_size);
        ASSERT_EQ(target->arg_count, op.arg_count) << key(op);
        for (int a = 0; a < op.arg_count; a++) {
            EXPECT_EQ(target->args[a].kind, op.args[a].kind) << key(op);
            EXPECT_EQ(target->args[a].offset, op.args[a].offset) << key(op);
        }
        EXPECT_EQ(target->forms | op.forms, target->forms) << key(op);
    }
    EXPECT_GE(aliases, 7);
    EXPECT_STREQ(amp_op_find("cross_entropy_loss")->alias_of, "cross_entropy");
    EXPECT_STREQ(amp_op_find("inverse")->alias_of, "linalg_inv");
}

TEST(OpTable, DefaultsArePyTorchs) {
    const amp_arg_info *alpha = find_arg(rows()[AMP_OP_ID_add], "alpha");
    EXPECT_EQ(alpha->has_default, 1);
    EXPECT_EQ(alpha->default_number, 1.0);
    EXPECT_EQ(alpha->default_scalar_kind, AMP_SCALAR_INT);
    const amp_arg_info *stride = find_arg(rows()[AMP_OP_ID_conv2d], "stride");
    EXPECT_EQ(stride->kind, AMP_ARG_DIMS);
    EXPECT_EQ(stride->dims, 2);
    EXPECT_EQ(stride->default_number, 1.0);
    const amp_arg_info *eps = find_arg(rows()[AMP_OP_ID_layer_norm], "eps");
    EXPECT_EQ(eps->kind, AMP_ARG_OPT_FLOAT);
    EXPECT_EQ(eps->default_number, 1e-5);
    EXPECT_STREQ(find_arg(rows()[AMP_OP_ID_gelu], "approximate")->default_string, "none");
    EXPECT_EQ(find_arg(rows()[AMP_OP_ID_cross_entropy], "ignore_index")->default_number, -100.0);
    EXPECT_EQ(find_arg(rows()[AMP_OP_ID_topk], "largest")->kind, AMP_ARG_OPT_BOOL);
    EXPECT_EQ(find_arg(rows()[AMP_OP_ID_topk], "largest")->default_number, 1.0);
    EXPECT_EQ(find_arg(rows()[AMP_OP_ID_sum], "keepdim")->kind, AMP_ARG_BOOL);
    EXPECT_EQ(find_arg(rows()[AMP_OP_ID_sum], "dim")->has_default, 0);
    EXPECT_TRUE(find_arg(rows()[AMP_OP_ID_sum], "dim")->flags & AMP_ARG_NULLABLE);
    EXPECT_EQ(find_arg(rows()[AMP_OP_ID_hardtanh], "min_val")->default_scalar_kind, AMP_SCALAR_FLOAT);
}

TEST(OpTable, MarksWeightsAndRunningStatistics) {
    EXPECT_TRUE(find_arg(rows()[AMP_OP_ID_linear], "weight")->flags & AMP_ARG_WEIGHT);
    EXPECT_TRUE(find_arg(rows()[AMP_OP_ID_linear], "bias")->flags & AMP_ARG_WEIGHT);
    EXPECT_FALSE(find_arg(rows()[AMP_OP_ID_linear], "input")->flags & AMP_ARG_WEIGHT);
    EXPECT_TRUE(find_arg(rows()[AMP_OP_ID_lstm], "params")->flags & AMP_ARG_WEIGHT);
    const unsigned statistics = AMP_ARG_MUTATED | AMP_ARG_UNCAST | AMP_ARG_NULLABLE;
    EXPECT_EQ(find_arg(rows()[AMP_OP_ID_batch_norm], "running_mean")->flags & statistics, statistics);
    for (int i = 0; i < amp_op_count; i++) {
        for (int a = 0; a < rows()[i].arg_count; a++) {
            const amp_arg_info &arg = rows()[i].args[a];
            if (!(arg.flags & (AMP_ARG_WEIGHT | AMP_ARG_MUTATED | AMP_ARG_UNCAST))) continue;
            EXPECT_TRUE(arg.kind == AMP_ARG_TENSOR || arg.kind == AMP_ARG_TENSOR_LIST) << key(rows()[i]);
        }
    }
}

TEST(OpTable, EveryRowIsDocumentedAndSaysWhyItHasNoGradient) {
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info &op = rows()[i];
        EXPECT_GT(std::strlen(op.doc), 3u) << key(op);
        EXPECT_EQ(std::string(op.schema).rfind(key(op) + "(", 0), 0u) << op.schema;
        EXPECT_EQ(std::string(op.schema).find('@'), std::string::npos) << op.schema;
        EXPECT_EQ(op.no_gradient != nullptr, (op.flags & AMP_OP_NOT_DIFFERENTIABLE) != 0) << key(op);
    }
    EXPECT_NE(std::string(amp_op_find("binary_cross_entropy")->banned_message).find("with_logits"), std::string::npos);
}

TEST(OpTable, ADocOfTwoStringsIsWhole) {
    const std::string doc = amp_op_find("to.device")->doc;
    EXPECT_EQ(doc.rfind("The elements on a device", 0), 0u) << doc;
    EXPECT_NE(doc.find("it is there already"), std::string::npos) << doc;
}
