// A JSON writer for the result file and the launch file; it places the commas.
#pragma once

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include <unistd.h>

namespace kernelrig {

class Json {
public:
  Json &open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
    return *this;
  }

  Json &close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }

  Json &key(const char *name) {
    separate();
    quote(name);
    text_ += ": ";
    first_ = true; // the value follows without a comma
    return *this;
  }

  Json &value(const std::string &text) {
    separate();
    quote(text);
    return *this;
  }
  Json &value(const char *text) { return value(std::string(text)); }
  Json &value(bool flag) { return raw(flag ? "true" : "false"); }
  Json &value(int number) { return raw(std::to_string(number)); }
  Json &value(unsigned number) { return raw(std::to_string(number)); }
  Json &value(long long number) { return raw(std::to_string(number)); }
  Json &value(unsigned long number) { return raw(std::to_string(number)); }
  Json &value(unsigned long long number) { return raw(std::to_string(number)); }

  // JSON has no NaN and no infinity: both become null; fields named *_bits carry the exact value.
  Json &value(double number) { return real(number, "%.9g"); } // a float's digits
  Json &exact(double number) { return real(number, "%.17g"); }

  Json &null() { return raw("null"); }

  template <class T> Json &field(const char *name, const T &content) {
    key(name);
    return value(content);
  }

  Json &line() {
    pending_line_ = true;
    return *this;
  }

  const std::string &text() const { return text_; }

private:
  Json &real(double number, const char *format) {
    if (!std::isfinite(number))
      return null();
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, format, number);
    // integers keep a decimal point, so that a reader sees a float
    if (std::strpbrk(buffer, ".e") == nullptr)
      std::strcat(buffer, ".0");
    return raw(buffer);
  }

  Json &raw(const std::string &token) {
    separate();
    text_ += token;
    return *this;
  }

  void separate() {
    if (!first_)
      text_ += pending_line_ ? "," : ", ";
    if (pending_line_)
      text_ += "\n  ";
    pending_line_ = false;
    first_ = false;
  }

  void quote(const std::string &text) {
    text_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
        text_ += escape;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool first_ = true;
  bool pending_line_ = false;
};

// Write a file atomically: temporary name, fsync, rename. Returns the error, or an empty string.
inline std::string write_whole(const std::string &path, const void *data, size_t bytes) {
  const std::string part = path + ".part" + std::to_string(getpid());
  std::FILE *file = std::fopen(part.c_str(), "wb");
  if (file == nullptr)
    return "cannot write " + path + ": " + std::strerror(errno);
  bool good = std::fwrite(data, 1, bytes, file) == bytes && std::fflush(file) == 0;
  good = good && fsync(fileno(file)) == 0;
  const int reason = errno;
  if (std::fclose(file) == 0 && good && std::rename(part.c_str(), path.c_str()) == 0)
    return "";
  const std::string sentence = "cannot write " + path + ": " + std::strerror(good ? errno : reason);
  std::remove(part.c_str());
  return sentence;
}

// The error that writing `path` would have, or an empty string; checked before the run starts.
inline std::string refusal_to_write(const std::string &path) {
  const std::string part = path + ".part" + std::to_string(getpid());
  std::FILE *file = std::fopen(part.c_str(), "wb");
  if (file == nullptr)
    return "cannot write " + path + ": " + std::strerror(errno);
  std::fclose(file);
  std::remove(part.c_str());
  return "";
}

} // namespace kernelrig
