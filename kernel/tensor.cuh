// The tensors of an operation: element types, what a flag says of one, and the values that inputs
// start with: the same bits here on host and device, and in Python (kernelrig.reference.tensors).
// Compiles as plain C++ too.
//
// A flag of an input is NAME:DTYPE:EXTENTxEXTENT...:VALUES:LOW:HIGH, as
// `x:f32:8x1000:uniform:-4:4`, of an output NAME:DTYPE:EXTENTxEXTENT...[:INITIAL], as
// `y:f32:8:zeros`: what it holds before a launch, `zeros` or the values of the input INITIAL,
// without it a canary. With u = unit_at(hash_base(NAME, seed), i) of inputs.cuh, i the row-major
// index, the value of an input before it is rounded to its type, nearest even (integers: cut) is,
// in FP32, and in FP64 with unit_double_at for types of 64 bits,
//
//   pattern constant   1
//   pattern integer    floor(3 u) - 1; of an unsigned type floor(3 u)
//   pattern random     by VALUES:
//     uniform          LOW + (HIGH - LOW) * u
//     uneven           the same, divided by 2^0 .. 2^15 as the lowest bits of the hash say
//     ramp             LOW + (HIGH - LOW) * (i mod 251) / 256
//
// and 0 in every pattern for VALUES zeros.
#pragma once

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "inputs.cuh"

namespace kernelrig {

enum class Dtype { E4M3, E5M2, BF16, F16, F32, F64, I8, U8, I16, U16, I32, U32, I64, U64 };
enum class Values { UNIFORM, UNEVEN, RAMP, ZEROS };

struct DtypeFacts {
  const char *name;
  unsigned bytes;
  const char *npy; // what an .npy calls it; a type without a name there is kept as its bits
};

// By the number of the Dtype.
inline constexpr DtypeFacts DTYPES[] = {
    {"e4m3", 1, "|u1"}, {"e5m2", 1, "|u1"}, {"bf16", 2, "<u2"}, {"f16", 2, "<f2"},
    {"f32", 4, "<f4"},  {"f64", 8, "<f8"},  {"i8", 1, "|i1"},   {"u8", 1, "|u1"},
    {"i16", 2, "<i2"},  {"u16", 2, "<u2"},  {"i32", 4, "<i4"},  {"u32", 4, "<u4"},
    {"i64", 8, "<i8"},  {"u64", 8, "<u8"}};
inline constexpr const char *VALUES[] = {"uniform", "uneven", "ramp", "zeros"};

struct TensorSpec {
  std::string text; // the flag's, which the result file repeats
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<uint64_t> shape;
  Values values = Values::UNIFORM;
  double low = 0.0, high = 0.0;
  std::string initial; // of an output

  const DtypeFacts &facts() const { return DTYPES[static_cast<int>(dtype)]; }
  bool is_wide() const { return facts().bytes == 8; }
  uint64_t elements() const {
    uint64_t count = 1;
    for (const uint64_t extent : shape)
      count *= extent;
    return count;
  }
  uint64_t bytes() const { return elements() * facts().bytes; }
};

constexpr uint64_t MAX_TENSOR_BYTES = uint64_t{1} << 40;
constexpr size_t MAX_DIMENSIONS = 8;

namespace tensor_text {

inline std::vector<std::string> parts_of(const std::string &text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

inline bool is_identifier(const std::string &text) {
  if (text.empty() || text.size() > 100 || std::isdigit(static_cast<unsigned char>(text[0])))
    return false;
  for (const char c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_')
      return false;
  }
  return true;
}

template <class Entry, size_t COUNT>
int number_in(const Entry (&table)[COUNT], const std::string &name) {
  for (size_t i = 0; i < COUNT; ++i) {
    if constexpr (std::is_same_v<Entry, DtypeFacts>) {
      if (name == table[i].name)
        return static_cast<int>(i);
    } else if (name == table[i]) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// A number that `wide` says to keep as a double, and otherwise as the float nearest to it.
inline bool read_number(const std::string &text, bool wide, double &value) {
  char *end = nullptr;
  value = std::strtod(text.c_str(), &end);
  if (!wide)
    value = static_cast<double>(static_cast<float>(value));
  return !text.empty() && *end == '\0' && value - value == 0.0;
}

inline std::string dtype_names() {
  std::string names;
  constexpr size_t COUNT = sizeof DTYPES / sizeof *DTYPES;
  for (size_t i = 0; i < COUNT; ++i)
    names += (i == 0 ? "" : i + 1 < COUNT ? ", " : " or ") + std::string(DTYPES[i].name);
  return names;
}

} // namespace tensor_text

// Returns what is wrong with the text of a flag, or an empty string and the tensor.
inline std::string parse_tensor(const std::string &text, bool is_input, TensorSpec &tensor) {
  using namespace tensor_text;
  const std::vector<std::string> parts = parts_of(text, ':');
  if (is_input ? parts.size() != 6 : parts.size() != 3 && parts.size() != 4) {
    return std::string("expected NAME:DTYPE:EXTENTxEXTENT") +
           (is_input ? ":VALUES:LOW:HIGH" : "[:INITIAL]");
  }
  tensor.text = text;
  tensor.name = parts[0];
  if (!is_identifier(tensor.name))
    return "'" + parts[0] + "' is no name: letters, digits and '_'";
  const int dtype = number_in(DTYPES, parts[1]);
  if (dtype < 0)
    return "unknown dtype '" + parts[1] + "': " + dtype_names();
  tensor.dtype = static_cast<Dtype>(dtype);
  uint64_t bytes = tensor.facts().bytes;
  for (const std::string &extent : parts_of(parts[2], 'x')) {
    char *end = nullptr;
    const uint64_t number = std::strtoull(extent.c_str(), &end, 10);
    const bool digits = !extent.empty() && std::isdigit(static_cast<unsigned char>(extent[0]));
    if (!digits || *end != '\0' || number == 0 || number > MAX_TENSOR_BYTES / bytes)
      return "'" + parts[2] + "' is no shape of 1 element to 1 TiB, as 8x1000";
    bytes *= number;
    tensor.shape.push_back(number);
  }
  if (tensor.shape.size() > MAX_DIMENSIONS)
    return "'" + parts[2] + "' has more than 8 dimensions";
  if (!is_input) {
    tensor.initial = parts.size() == 4 ? parts[3] : "";
    if (parts.size() == 4 && !is_identifier(tensor.initial))
      return "'" + tensor.initial + "' is neither zeros nor the name of an input";
    return "";
  }
  const int values = number_in(VALUES, parts[3]);
  if (values < 0)
    return "unknown values '" + parts[3] + "': uniform, uneven, ramp or zeros";
  tensor.values = static_cast<Values>(values);
  const bool wide = tensor.is_wide();
  if (!read_number(parts[4], wide, tensor.low) || !read_number(parts[5], wide, tensor.high))
    return "'" + parts[4] + ":" + parts[5] + "' are no two numbers";
  return "";
}

// What an output holds before a launch, as an input of these values; nothing for a canary, and for
// an INITIAL that is no input of the same type and shape.
inline std::optional<TensorSpec> initial_of(const TensorSpec &output,
                                            const std::vector<TensorSpec> &inputs) {
  if (output.initial == "zeros") {
    TensorSpec zeros = output;
    zeros.values = Values::ZEROS;
    return zeros;
  }
  for (const TensorSpec &input : inputs) {
    if (input.name == output.initial && input.dtype == output.dtype && input.shape == output.shape)
      return input;
  }
  return std::nullopt;
}

// A float to a number of fewer bits, nearest even, kept at the largest code; NaN does not occur.
KERNELRIG_HD uint32_t rounded_code(float value, int mantissa_bits, int bias, uint32_t largest) {
  const uint32_t bits = float_bits(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const int kept = exponent < 1 - bias ? 1 - bias : exponent; // below that the quantum stays
  const int shift = 23 - mantissa_bits + kept - exponent;
  if (exponent < -126 || shift > 24)
    return 0;
  const uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  const uint32_t half = 1u << (shift - 1);
  uint32_t steps = significand >> shift;
  const uint32_t rest = significand & ((half << 1) - 1);
  if (rest > half || (rest == half && (steps & 1u)))
    ++steps;
  const uint32_t code = (static_cast<uint32_t>(kept + bias - 1) << mantissa_bits) + steps;
  return code < largest ? code : largest;
}

// What the elements of an input are made from; the device gets this instead of the spec. Of a type
// that is not wide, `low` and `scale` are floats.
struct TensorFill {
  Dtype dtype;
  Values values;
  Pattern pattern;
  uint64_t base;
  double low, scale;
};

inline TensorFill fill_of(const TensorSpec &tensor, Pattern pattern, uint64_t seed) {
  const float scale = static_cast<float>(tensor.high) - static_cast<float>(tensor.low);
  return {tensor.dtype,
          tensor.values,
          pattern,
          hash_base(tensor.name.c_str(), seed),
          tensor.low,
          tensor.is_wide() ? tensor.high - tensor.low : static_cast<double>(scale)};
}

KERNELRIG_HD bool is_unsigned(Dtype dtype) {
  return dtype == Dtype::U8 || dtype == Dtype::U16 || dtype == Dtype::U32 || dtype == Dtype::U64;
}

// In floats or, for wide types, in doubles; `unit` is u.
template <class Real>
KERNELRIG_HD Real value_from(const TensorFill &fill, uint64_t index, Real unit) {
  if (fill.values == Values::ZEROS)
    return 0;
  if (fill.pattern == Pattern::CONSTANT)
    return 1;
  if (fill.pattern == Pattern::INTEGER) {
    const Real whole = static_cast<Real>(static_cast<int>(scale_then_add(unit, Real(3), Real(0))));
    return is_unsigned(fill.dtype) ? whole : whole - 1;
  }
  const Real scale = static_cast<Real>(fill.scale), low = static_cast<Real>(fill.low);
  if (fill.values == Values::RAMP) {
    const Real step = static_cast<Real>(static_cast<uint32_t>(index % 251)) * Real(0x1p-8);
    return scale_then_add(step, scale, low);
  }
  const Real value = scale_then_add(unit, scale, low);
  if (fill.values == Values::UNIFORM)
    return value;
  const uint32_t halvings = static_cast<uint32_t>(hash_at(fill.base, index)) & 15u;
  return value * static_cast<Real>(bits_float((127u - halvings) << 23));
}

// An element of a type of at most 32 bits, in the lowest bytes of the number.
KERNELRIG_HD uint32_t element_at(const TensorFill &fill, uint64_t index) {
  const float value = value_from(fill, index, unit_at(fill.base, index));
  const uint32_t sign = float_bits(value) >> 31;
  switch (fill.dtype) {
  case Dtype::E4M3:
    return e4m3_from_float(value);
  case Dtype::E5M2:
    return sign << 7 | rounded_code(value, 2, 15, 0x7B);
  case Dtype::F16:
    return sign << 15 | rounded_code(value, 10, 15, 0x7BFF);
  case Dtype::BF16:
    return bf16_from_float(value);
  case Dtype::F32:
    return float_bits(value);
  default: // the range of an integer's values fits its type: kernelrig checks it
    return static_cast<uint32_t>(static_cast<int64_t>(value));
  }
}

KERNELRIG_HD uint64_t wide_element_at(const TensorFill &fill, uint64_t index) {
  const double value = value_from(fill, index, unit_double_at(fill.base, index));
  if (fill.dtype != Dtype::F64)
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

KERNELRIG_HD void store_element(uint8_t *tensor, const TensorFill &fill, uint64_t index) {
  switch (fill.dtype) {
  case Dtype::F64:
  case Dtype::I64:
  case Dtype::U64:
    reinterpret_cast<uint64_t *>(tensor)[index] = wide_element_at(fill, index);
    break;
  case Dtype::F32:
  case Dtype::I32:
  case Dtype::U32:
    reinterpret_cast<uint32_t *>(tensor)[index] = element_at(fill, index);
    break;
  case Dtype::BF16:
  case Dtype::F16:
  case Dtype::I16:
  case Dtype::U16:
    reinterpret_cast<uint16_t *>(tensor)[index] = static_cast<uint16_t>(element_at(fill, index));
    break;
  default:
    tensor[index] = static_cast<uint8_t>(element_at(fill, index));
  }
}

// The head of an .npy (format 1.0); the elements follow in row order.
inline std::string npy_head(const char *dtype, const std::vector<uint64_t> &shape) {
  std::string header =
      std::string("{'descr': '") + dtype + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i)
    header += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  header += shape.size() == 1 ? ",), }" : "), }";
  while ((10 + header.size() + 1) % 64 != 0)
    header += ' ';
  header += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(header.size() & 0xFF);
  head += static_cast<char>(header.size() >> 8);
  return head + header;
}

} // namespace kernelrig
