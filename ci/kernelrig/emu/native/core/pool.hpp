// Things that are used again: an operation allocates nothing once as many have run side by side.
#pragma once

#include <memory>
#include <vector>

namespace emu {

template <class T> class Pool {
public:
  // One that nobody uses, as its last user left it.
  T* take() {
    if (unused.empty()) {
      all.push_back(std::make_unique<T>());
      return all.back().get();
    }
    T* taken = unused.back();
    unused.pop_back();
    return taken;
  }
  void put(T* one) { unused.push_back(one); }

private:
  std::vector<std::unique_ptr<T>> all;
  std::vector<T*> unused;
};

// For Op::own, of something that a pool owns.
inline std::shared_ptr<void> not_owned(void* one) {
  return std::shared_ptr<void>(std::shared_ptr<void>(), one);
}

}  // namespace emu
