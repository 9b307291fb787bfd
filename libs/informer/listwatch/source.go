// Package listwatch follows views over HTTP by list and watch, as client-go's reflector
// does (tools/cache.Reflector): an informer's source for programs without the bus, and the
// fall-back of package follow.
//
// A follower begins with a watch that sends what there is first, up to a bookmark, and goes on
// with the same watch; from a server that cannot do that it lists, and then watches. A watch
// that ends in its time is opened again where it was. After a fault it reads the whole view
// again, later each time.
//
// A Garboard apiserver says of which history of etcd its answers are. What is of an older one than
// the content is not taken: that apiserver has not noticed yet that etcd was set back. A newer one
// is begun with a whole view.
//
// Events of one revision are handed over together, so that the content is exact for the
// revision. See docs/reference/informer/reconcile-and-reflector.md for where it differs from client-go.
package listwatch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/history"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// nodeNameField selects pods by their scope.
const nodeNameField = "spec.nodeName"

// Config are the parts of a source. Only Client is required.
type Config struct {
	// Client lists and watches.
	Client client.Interface
	// Logger takes faults; none are logged when nil.
	Logger *slog.Logger
	// Registerer takes the metrics; none when nil.
	Registerer prometheus.Registerer
	// PageSize is how many objects a list call asks for (client-go, WatchListPageSize): 500
	// when 0, but then a list that need not be newer than a version is read in one page.
	PageSize int64
	// NoWatchList says that views are read by lists, never by a watch that begins with what
	// there is.
	NoWatchList bool
	// MinWatchTimeout is after how long the server may end a watch; up to twice as long, so
	// that watches spread over the servers. 5 min when less.
	MinWatchTimeout time.Duration
	// MaxInternalErrorRetryDuration is for how long a watch that ends with an internal error
	// is opened again without a list; not at all when 0.
	MaxInternalErrorRetryDuration time.Duration
	// WatchErrorHandler is told of each failure to read a view or to open a watch, before the
	// wait that follows it. It must not block. Failures are logged when nil.
	WatchErrorHandler func(ctx context.Context, kind *scheme.Kind, err error)
}

// Source makes followers that list and watch.
type Source struct {
	cfg     Config
	metrics *metrics
}

var _ informer.Source = (*Source)(nil)

// New makes a source over c with the usual settings. logger may be nil.
func New(c client.Interface, logger *slog.Logger) *Source {
	return NewWithConfig(Config{Client: c, Logger: logger})
}

// NewWithConfig makes a source.
func NewWithConfig(cfg Config) *Source {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.MinWatchTimeout = max(cfg.MinWatchTimeout, minWatchTimeout)
	return &Source{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
}

// Follower follows a view, beginning with all there is.
func (s *Source) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	return s.follower(kind, view, sink)
}

// Resume is Follower for a sink that holds the view at revision of a history: it goes on with a
// watch, unless revision is 0. It never reads from a cache that may be older than what the sink
// knew, nor of an older history.
func (s *Source) Resume(kind *scheme.Kind, view informer.View, sink informer.Sink, of history.ID, revision int64) informer.Follower {
	f := s.follower(kind, view, sink)
	f.history, f.position, f.resumes, f.unavailable = of, revision, revision > 0, revision == 0
	return f
}

func (s *Source) follower(kind *scheme.Kind, view informer.View, sink informer.Sink) *follower {
	resource := kind.GroupResource().String()
	return &follower{
		cfg: &s.cfg, kind: kind, view: view, sink: sink,
		logger:   s.cfg.Logger.With("resource", resource),
		count:    s.metrics.of(resource),
		required: make(chan struct{}, 1),
	}
}

// Listing is a whole view.
type Listing struct {
	// Objects are what it holds at Revision.
	Objects  []informer.Object
	Revision int64
	// History is that of which Revision is; the zero ID if the server did not say.
	History history.ID
}

// List reads a whole view. With a minimum it is not older than that revision, but perhaps
// older than now; without one it is as new as etcd when it was asked.
func (s *Source) List(ctx context.Context, kind *scheme.Kind, view informer.View, minimum int64) (Listing, error) {
	read, err := list(ctx, s.cfg.Client, kind, view, atLeast(minimum), cmp.Or(s.cfg.PageSize, defaultPageSize))
	if err != nil {
		return Listing{}, err
	}
	return Listing{Objects: read.objects, Revision: read.revision, History: read.history}, nil
}

// options selects a view; an error if the kind has no such view.
func options(kind *scheme.Kind, view informer.View) (metav1.ListOptions, error) {
	var opts metav1.ListOptions
	if view.Namespace != "" && !kind.Namespaced {
		return opts, fmt.Errorf("following %s in namespace %s: the resource has no namespaces", kind.GroupResource(), view.Namespace)
	}
	var terms []fields.Selector
	if view.Name != "" {
		if kind.Namespaced && view.Namespace == "" {
			return opts, fmt.Errorf("following %s %s: its namespace is missing", kind.GroupResource(), view.Name)
		}
		terms = append(terms, fields.OneTermEqualSelector("metadata.name", view.Name))
	}
	if view.Scope != "" {
		node := view.Scope
		if node == scheme.Unscoped {
			node = ""
		}
		switch {
		case kind.Scope != nil:
			terms = append(terms, fields.OneTermEqualSelector(nodeNameField, node))
		case node != "":
			return opts, fmt.Errorf("following %s of %s: the resource has no scopes", kind.GroupResource(), node)
		}
	}
	if len(terms) > 0 {
		opts.FieldSelector = fields.AndSelectors(terms...).String()
	}
	return opts, nil
}

// Check says whether a kind has a view.
func Check(kind *scheme.Kind, view informer.View) error {
	_, err := options(kind, view)
	return err
}
