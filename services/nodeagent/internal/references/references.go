// Package references reads what pods refer to: ConfigMaps, Secrets and the Services of a
// namespace. Answers are kept for a short time, so that many containers of one pod, and
// many pods that are synced at once, cost one read.
package references

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
)

// Freshness is how old an answer may be (the kubelet's TTL caches keep up to a minute).
const Freshness = 5 * time.Second

// Reader reads referenced objects. It may be used from any goroutine; what it returns is
// shared: do not change it.
type Reader struct {
	configMaps client.Resource[*corev1.ConfigMap]
	secrets    client.Resource[*corev1.Secret]
	services   client.Resource[*corev1.Service]

	mu      sync.Mutex
	answers map[key]answer
	// forgets counts Forget: what was asked before one is not kept after it.
	forgets uint64
}

// key names what was read; name is empty for all of a namespace.
type key struct{ kind, namespace, name string }

type answer struct {
	value any
	err   error
	read  time.Time
}

// New makes a reader over c.
func New(c client.Interface) *Reader {
	return &Reader{
		configMaps: client.Of[*corev1.ConfigMap](c),
		secrets:    client.Of[*corev1.Secret](c),
		services:   client.Of[*corev1.Service](c),
		answers:    map[key]answer{},
	}
}

// ConfigMap reads a ConfigMap.
func (r *Reader) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return cached(ctx, r, key{"configmap", namespace, name}, func(ctx context.Context) (*corev1.ConfigMap, error) {
		cm, err := r.configMaps.Get(ctx, namespace, name, metav1.GetOptions{})
		return cm, named(err, "configmap", name)
	})
}

// Secret reads a Secret.
func (r *Reader) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return cached(ctx, r, key{"secret", namespace, name}, func(ctx context.Context) (*corev1.Secret, error) {
		secret, err := r.secrets.Get(ctx, namespace, name, metav1.GetOptions{})
		return secret, named(err, "secret", name)
	})
}

// Forget makes the next reads in a namespace new ones. It is called for a pod that is new: what
// was changed before the pod was created is what its containers must see.
func (r *Reader) Forget(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgets++
	maps.DeleteFunc(r.answers, func(k key, _ answer) bool { return k.namespace == namespace })
}

// named says that an object is not there as the kubelet says it, in the singular.
func named(err error, kind, name string) error {
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(corev1.Resource(kind), name)
	}
	return err
}

// Services reads the Services of a namespace.
func (r *Reader) Services(ctx context.Context, namespace string) ([]*corev1.Service, error) {
	return cached(ctx, r, key{"services", namespace, ""}, func(ctx context.Context) ([]*corev1.Service, error) {
		list, _, err := r.services.List(ctx, namespace, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing the services of namespace %s: %w", namespace, err)
		}
		return list, nil
	})
}

// cached answers from what was read lately. Only answers of the apiserver are kept: a value,
// or that there is none.
func cached[V any](ctx context.Context, r *Reader, what key, read func(context.Context) (V, error)) (V, error) {
	r.mu.Lock()
	a, known := r.answers[what]
	forgets := r.forgets
	r.mu.Unlock()
	if known && time.Since(a.read) < Freshness {
		value, _ := a.value.(V)
		return value, a.err
	}
	value, err := read(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for k, old := range r.answers {
		if now.Sub(old.read) >= Freshness {
			delete(r.answers, k)
		}
	}
	if r.forgets == forgets && (err == nil || apierrors.IsNotFound(err)) {
		r.answers[what] = answer{value: value, err: err, read: now}
	}
	return value, err
}
