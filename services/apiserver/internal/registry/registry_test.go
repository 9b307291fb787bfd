package registry_test

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type world = registrytest.World

func newWorld(t testing.TB, change ...func(*registrytest.Config)) *world {
	t.Helper()
	return registrytest.New(t, change...)
}

func resource[T scheme.Object](w *world) *registry.Resource { return registrytest.Of[T](w) }

func create[T scheme.Object](w *world, namespace string, obj T) T {
	w.T.Helper()
	return registrytest.Create(w, namespace, obj)
}

func update[T scheme.Object](w *world, namespace, name, subresource string, change func(T)) (T, error) {
	w.T.Helper()
	return registrytest.Update(w, namespace, name, subresource, change)
}

func get[T scheme.Object](w *world, namespace, name string) T {
	w.T.Helper()
	return registrytest.Get[T](w, namespace, name)
}

func newPod(name string) *corev1.Pod { return registrytest.Pod(name) }
