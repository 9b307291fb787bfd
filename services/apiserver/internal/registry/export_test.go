package registry

import (
	"context"
	"runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// What the tests of this folder use besides the package's API.
const (
	BookmarkBefore = bookmarkBefore
	RecordWriter   = recordWriter
	RecordNobody   = recordNobody
)

var ErrChanged = errChanged

type Record = record

// Recording returns opts with another record of owners.
func (opts UpdateOptions) Recording(how Record) UpdateOptions {
	opts.record = how
	return opts
}

func (r *Resource) CreateRecording(
	ctx context.Context, namespace string, obj scheme.Object, opts metav1.CreateOptions, how Record,
) (scheme.Object, error) {
	return r.create(ctx, namespace, obj, opts, how)
}

func (r *Resource) Remove(ctx context.Context, namespace, name string, seen scheme.Object) (scheme.Object, error) {
	return r.remove(ctx, namespace, name, seen)
}

func (r *Resource) Feed() *feed.Feed { return r.feed() }

// On returns the resource in another store.
func (r *Resource) On(s *store.Store) *Resource {
	other := *r
	other.store = s
	return &other
}

// Follow replaces the feeds.
func (r *Registry) Follow(feeds *feed.Feeds) { r.config.Feeds = feeds }

// Lookup returns the admission plugins' view of the registry.
func (r *Registry) Lookup() admission.Lookup { return lookup{r} }

// Failure returns what the watch's feed failed with.
func (w *Watch) Failure() error { return w.failed }

// TakeTurns takes the turns of costly validations until the returned function is called.
func (r *Registry) TakeTurns(ctx context.Context) (end func(), err error) {
	var ends []func(bool)
	for range max(1, runtime.GOMAXPROCS(0)-1) {
		one, err := r.turns.Take(ctx, &kinds.Definition{Costly: true})
		if err != nil {
			return nil, err
		}
		ends = append(ends, one)
	}
	return func() {
		for _, end := range ends {
			end(true)
		}
	}, nil
}
