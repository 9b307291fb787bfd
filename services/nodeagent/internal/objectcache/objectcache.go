// Package objectcache reads the objects that pods refer to: ConfigMaps, Secrets, claims with their volumes,
// ClusterTrustBundles, and the Services of a namespace. Answers are reused for a short time, so many containers of one
// pod, and many pods synced at once, cost one read. While a pod is on the node, its last answers are kept in memory,
// never on disk: with them its containers can restart while the apiserver is unavailable.
package objectcache

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/client"
)

// freshness is the maximum age of a reused answer (the kubelet's TTL caches keep up to a minute).
const freshness = 5 * time.Second

// Reader reads referenced objects. Any goroutine may use it. Objects that it returns are shared: do
// not modify them.
type Reader struct {
	configMaps client.Resource[*corev1.ConfigMap]
	secrets    client.Resource[*corev1.Secret]
	services   client.Resource[*corev1.Service]
	claims     client.Resource[*corev1.PersistentVolumeClaim]
	volumes    client.Resource[*corev1.PersistentVolume]
	bundles    client.Resource[*certificatesv1.ClusterTrustBundle]
	logger     *slog.Logger

	mu      sync.Mutex
	answers map[key]answer
	// forgets counts calls of Forget: an answer requested before one is not reused after it.
	forgets uint64
	kept    kept
}

// key identifies what was read; name is empty for a list of a namespace.
type key struct{ kind, namespace, name string }

type answer struct {
	value any
	err   error
	// began and read are the times of the request and of the answer.
	began, read time.Time
}

// New returns a Reader that reads through c. logger receives the log.
func New(c client.Interface, logger *slog.Logger) *Reader {
	return &Reader{
		configMaps: client.Of[*corev1.ConfigMap](c),
		secrets:    client.Of[*corev1.Secret](c),
		services:   client.Of[*corev1.Service](c),
		claims:     client.Of[*corev1.PersistentVolumeClaim](c),
		volumes:    client.Of[*corev1.PersistentVolume](c),
		bundles:    client.Of[*certificatesv1.ClusterTrustBundle](c),
		logger:     logger,
		answers:    map[key]answer{},
		kept:       kept{last: map[key]*last{}},
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

// Claim reads a PersistentVolumeClaim.
func (r *Reader) Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return cached(ctx, r, key{"persistentvolumeclaim", namespace, name}, func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return r.claims.Get(ctx, namespace, name, metav1.GetOptions{})
	})
}

// PersistentVolume reads a PersistentVolume.
func (r *Reader) PersistentVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	return cached(ctx, r, key{"persistentvolume", "", name}, func(ctx context.Context) (*corev1.PersistentVolume, error) {
		return r.volumes.Get(ctx, "", name, metav1.GetOptions{})
	})
}

// TrustBundle reads a ClusterTrustBundle.
func (r *Reader) TrustBundle(ctx context.Context, name string) (*certificatesv1.ClusterTrustBundle, error) {
	return cached(ctx, r, key{"clustertrustbundle", "", name}, func(ctx context.Context) (*certificatesv1.ClusterTrustBundle, error) {
		return r.bundles.Get(ctx, "", name, metav1.GetOptions{})
	})
}

// TrustBundles reads the ClusterTrustBundles of a signer that have the labels.
func (r *Reader) TrustBundles(ctx context.Context, signer string, has labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error) {
	what := key{"clustertrustbundles", "", signer + " " + has.String()}
	return cached(ctx, r, what, func(ctx context.Context) ([]*certificatesv1.ClusterTrustBundle, error) {
		of := fields.OneTermEqualSelector("spec.signerName", signer).String()
		list, _, err := r.bundles.List(ctx, "", metav1.ListOptions{FieldSelector: of, LabelSelector: has.String()})
		if err != nil {
			return nil, fmt.Errorf("listing the cluster trust bundles of signer %s: %w", signer, err)
		}
		return list, nil
	})
}

// Forget makes the next reads in a namespace, and of objects in none, fresh. It is called for a new pod: the pod's
// containers must see every change made before the pod was created.
func (r *Reader) Forget(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgets++
	maps.DeleteFunc(r.answers, func(k key, _ answer) bool { return k.namespace == namespace || k.namespace == "" })
}

// named reports a missing object as the kubelet does, with the kind in the singular.
func named(err error, kind, name string) error {
	if apierrors.IsNotFound(err) && !Away(err) {
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

// cached returns a recent answer, or else calls read. Only answers of the apiserver are reused: a
// value, or that the object does not exist. When the apiserver is unavailable, cached returns the
// last answer for the pod of ctx.
func cached[V any](ctx context.Context, r *Reader, what key, read func(context.Context) (V, error)) (V, error) {
	pod := podOf(ctx)
	began := time.Now()
	r.mu.Lock()
	a, known := r.answers[what]
	if known = known && began.Sub(a.read) < freshness; known {
		r.kept.keep(what, a, pod)
	}
	last, held := r.kept.of(what, pod)
	away, forgets := began.Before(r.kept.awayUntil), r.forgets
	r.mu.Unlock()
	if known || held && away {
		if !known {
			a = last
		}
		value, _ := a.value.(V)
		return value, a.err
	}
	limit := longest
	if held {
		limit = patience
	}
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	value, err := read(asking)
	if err != nil && ctx.Err() != nil {
		return value, err // The caller gave up.
	}
	a = answer{value: value, err: err, began: began, read: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, old := range r.answers {
		if a.read.Sub(old.read) >= freshness {
			delete(r.answers, k)
		}
	}
	switch {
	case err == nil, apierrors.IsNotFound(err) && !Away(err):
		if r.forgets == forgets {
			r.answers[what] = a
		}
		r.kept.keep(what, a, pod)
		r.kept.back(r.logger)
	case Away(err):
		r.kept.gone(r.logger, a.read, err)
		if last, held := r.kept.of(what, pod); held {
			value, _ := last.value.(V)
			return value, last.err
		}
	case apierrors.IsForbidden(err):
		// The node may no longer read the object, so it no longer uses it.
		delete(r.kept.last, what)
	}
	return value, err
}
