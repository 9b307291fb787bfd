package informer

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// NamespaceIndex is the index by namespace, which every store has.
const NamespaceIndex = "namespace"

// Key is the key of a stored object: namespace/name, or name if it has no namespace.
func Key(obj Object) string { return KeyOf(obj.GetNamespace(), obj.GetName()) }

// KeyOf is the key of the object with a namespace, which may be empty, and a name.
func KeyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// SplitMetaNamespaceKey is the opposite of KeyOf; an error if key has more than two parts.
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

// selects says whether selector selects obj; nil selects all.
func selects(selector labels.Selector, obj Object) bool {
	return selector == nil || selector.Empty() || selector.Matches(labels.Set(obj.GetLabels()))
}
