// Package eventratelimit is the plugin EventRateLimit.
package eventratelimit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/lru"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// Plugin returns the plugin. It refuses, with a 429, events beyond the rates that document sets, a
// Configuration of eventratelimit.admission.k8s.io/v1alpha1.
func Plugin(document []byte) (admission.Plugin, error) {
	limits, err := load(document)
	if err != nil {
		return admission.Plugin{}, err
	}
	var limiters []*limiter
	for _, l := range limits {
		limiters = append(limiters, newLimiter(l))
	}
	return admission.Plugin{Validate: func(ctx context.Context, req *admission.Request) error {
		return accept(ctx, limiters, req)
	}}, nil
}

// accept takes a token of every limit, also of those behind one that is reached. As in Kubernetes,
// events of events.k8s.io aren't limited.
func accept(ctx context.Context, limiters []*limiter, req *admission.Request) error {
	if req.Kind.Group != corev1.GroupName || req.Kind.Kind != "Event" || req.Verb == admission.Delete || req.DryRun {
		return nil
	}
	var errs []error
	for _, l := range limiters {
		if key := l.key(ctx, req); !l.allow(key) {
			errs = append(errs, fmt.Errorf("limit reached on type %v for key %v", l.kind, key))
		}
	}
	if reached := utilerrors.NewAggregate(errs); reached != nil {
		return apierrors.NewTooManyRequestsError(reached.Error())
	}
	return nil
}

// limiter is one limit, with a bucket for each key.
type limiter struct {
	kind limitType
	key  func(context.Context, *admission.Request) string
	new  func() *rate.Limiter

	mu      sync.Mutex
	buckets *lru.Cache
}

// defaultCacheSize is Kubernetes' number of buckets of a limit that doesn't set one.
const defaultCacheSize = 4096

func newLimiter(l limit) *limiter {
	size := int(l.CacheSize)
	if size == 0 || l.Type == server {
		size = defaultCacheSize
	}
	keys := map[limitType]func(context.Context, *admission.Request) string{
		server: oneKey, namespace: namespaceKey, user: userKey, sourceAndObject: objectKey,
	}
	return &limiter{
		kind: l.Type, key: keys[l.Type], buckets: lru.New(size),
		new: func() *rate.Limiter { return rate.NewLimiter(rate.Limit(l.QPS), int(l.Burst)) },
	}
}

// allow takes a token from the bucket of a key, and reports whether there was one.
func (l *limiter) allow(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, ok := l.buckets.Get(key)
	if !ok {
		bucket = l.new()
		l.buckets.Add(key, bucket)
	}
	limiter, ok := bucket.(*rate.Limiter)
	return ok && limiter.AllowN(time.Now(), 1)
}

func oneKey(context.Context, *admission.Request) string { return "" }

func namespaceKey(_ context.Context, req *admission.Request) string { return req.Namespace }

func userKey(ctx context.Context, _ *admission.Request) string {
	who, _ := authn.UserFrom(ctx)
	return who.Name
}

func objectKey(_ context.Context, req *admission.Request) string {
	event, ok := req.Object.(*corev1.Event)
	if !ok {
		return ""
	}
	about := event.InvolvedObject
	return strings.Join([]string{
		event.Source.Component, event.Source.Host, about.Kind, about.Namespace, about.Name, string(about.UID), about.APIVersion,
	}, "")
}
