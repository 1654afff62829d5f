// A value that any thread reads without a lock. Replaced ones stay alive: a reader may still hold
// them.
#ifndef AOTATTN_PUBLISHED_H
#define AOTATTN_PUBLISHED_H

#include <atomic>
#include <utility>

namespace aot {

template <class T> class Published {
public:
  constexpr Published() = default;
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

  // Null before the first publish.
  const T* get() const {
    const Node* node = newest_.load(std::memory_order_acquire);
    return node ? &node->value : nullptr;
  }

  // The newest that matches, or null.
  template <class Match> const T* find(Match match) const {
    for (const Node* node = newest_.load(std::memory_order_acquire); node; node = node->older)
      if (match(node->value))
        return &node->value;
    return nullptr;
  }

  const T* publish(T value) {
    Node* node = new Node{std::move(value), newest_.load(std::memory_order_relaxed)};
    while (!newest_.compare_exchange_weak(node->older, node, std::memory_order_acq_rel))
      ;
    return &node->value;
  }

private:
  struct Node {
    T value;
    Node* older;
  };
  std::atomic<Node*> newest_{nullptr};
};

} // namespace aot

#endif
