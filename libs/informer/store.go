package informer

import (
	"fmt"
	"strings"

	"github.com/garboard/garboard/libs/informer/internal/cache"
)

// NamespaceIndex is the index by namespace, which every store has.
const NamespaceIndex = cache.NamespaceIndex

// TransformFunc changes an object before it is stored, most often to drop unneeded fields. It owns
// the object, may return another one, and must be idempotent: given its own result, it must return
// the same.
type TransformFunc[T Object] func(obj T) (T, error)

// contents is the store of an informer, for reading.
type contents[T Object] struct{ *cache.Cache[T] }

// GetIndexers returns the index functions.
func (c contents[T]) GetIndexers() Indexers[T] { return cache.Indexers[T, IndexFunc[T]](c.Cache) }

// Key returns the key of a stored object: namespace/name, or name if it has no namespace.
func Key(obj Object) string { return cache.Key(obj) }

// KeyOf returns the key of the object with a namespace, which may be empty, and a name.
func KeyOf(namespace, name string) string { return cache.KeyOf(namespace, name) }

// SplitMetaNamespaceKey is the inverse of KeyOf; an error if key has more than two parts.
func SplitMetaNamespaceKey(key string) (namespace, name string, err error) {
	namespace, name, found := strings.Cut(key, "/")
	switch {
	case !found:
		return "", key, nil
	case strings.Contains(name, "/"):
		return "", "", fmt.Errorf("unexpected key format: %q", key)
	}
	return namespace, name, nil
}
