// A library loaded at run time, so that the program can be built without it. Compiles as plain C++.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace kernelrig {

class SharedLibrary {
public:
  // The file that the environment variable names; if it is unset, the first of `names` that the
  // loader finds.
  SharedLibrary(const char *variable, const std::vector<std::string> &names) {
    const char *given = std::getenv(variable);
    const bool is_given = given != nullptr && *given != '\0';
    std::string first_error;
    for (const std::string &name : is_given ? std::vector<std::string>{given} : names) {
      handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr)
        return;
      const char *said = dlerror();
      if (first_error.empty())
        first_error = said == nullptr ? name : said;
    }
    refusal_ = first_error + "; set " + variable + "=PATH or LD_LIBRARY_PATH";
  }
  SharedLibrary(const SharedLibrary &) = delete;
  SharedLibrary &operator=(const SharedLibrary &) = delete;

  // Why it was not loaded, or an empty string. It stays loaded until the process ends.
  const std::string &refusal() const { return refusal_; }

  // Null where the library has no such function.
  template <class Function> Function find(const char *name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle_, name));
  }

private:
  void *handle_ = nullptr;
  std::string refusal_;
};

} // namespace kernelrig
