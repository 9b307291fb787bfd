// Package listwatch follows views over HTTP by list and watch, as client-go's reflector does
// (tools/cache.Reflector). It is an informer's source for programs without the bus, and the
// fallback of package fabricsource.
//
// A follower begins with a watch that first sends the existing objects, up to a bookmark, and
// continues with the same watch. From a server that does not support that, it lists and then
// watches. When a watch reaches its timeout, the follower opens it again from its position. After a
// fault it reads the whole view again, with back-off.
//
// A Garboard apiserver names the etcd history of its responses. The follower does not accept a
// response from an older history than its content: that apiserver has not noticed yet that etcd was
// set back. On a newer history the follower reads the whole view.
//
// The follower hands over events of one revision together, so that the content is exact for the
// revision. See docs/reference/informer/reconcile-and-reflector.md for the differences from
// client-go.
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
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// nodeNameField selects pods by their scope.
const nodeNameField = "spec.nodeName"

// Config configures a source. Only Client is required.
type Config struct {
	// Client lists and watches.
	Client client.Interface
	// Logger logs faults; none are logged when nil.
	Logger *slog.Logger
	// Registerer registers the metrics; none when nil.
	Registerer prometheus.Registerer
	// PageSize is how many objects a list call asks for (client-go, WatchListPageSize). 0 means
	// 500. With 0, a list from a minimum revision is read in one page, unless the server paged the
	// first list.
	PageSize int64
	// NoWatchList makes the follower read views by lists, never by a watch that begins with the
	// existing objects.
	NoWatchList bool
	// MinWatchTimeout is the minimum time after which the server may end a watch. Each watch gets
	// up to twice as long, so that watches spread over the servers. Values below 5 min mean 5 min.
	MinWatchTimeout time.Duration
	// MaxInternalErrorRetryDuration is how long a watch that ends with an internal error is opened
	// again without a list; never when 0.
	MaxInternalErrorRetryDuration time.Duration
	// WatchErrorHandler is called after each failure to read a view or to open a watch, before the
	// wait that follows. It must not block. When nil, failures are logged.
	WatchErrorHandler func(ctx context.Context, kind *scheme.Kind, err error)
}

// Source creates followers that list and watch.
type Source struct {
	cfg     Config
	metrics *metrics
}

var _ informer.Source = (*Source)(nil)

// New creates a source that uses c, with default settings. logger may be nil.
func New(c client.Interface, logger *slog.Logger) *Source {
	return NewWithConfig(Config{Client: c, Logger: logger})
}

// NewWithConfig creates a source.
func NewWithConfig(cfg Config) *Source {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.MinWatchTimeout = max(cfg.MinWatchTimeout, minWatchTimeout)
	return &Source{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
}

// Follower follows a view, beginning with all existing objects.
func (s *Source) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	return s.follower(kind, view, sink)
}

// Resume is Follower for a sink that holds the view at a position: it continues with a watch, unless
// the position's revision is 0. It accepts no cached content that may be older than the sink's, and
// nothing from an older history.
func (s *Source) Resume(kind *scheme.Kind, view informer.View, sink informer.Sink, at fabric.Position) informer.Follower {
	f := s.follower(kind, view, sink)
	f.history, f.position, f.resumes, f.unavailable = at.History, at.Revision, at.Revision > 0, at.Revision == 0
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
	// Objects are the objects of the view at Revision.
	Objects  []informer.Object
	Revision int64
	// History is the history of Revision; the zero ID if the server named none.
	History fabric.History
}

// List reads a whole view. With a minimum the view is at that revision or later, but may be older
// than now. Without one it is as new as etcd was at the time of the call.
func (s *Source) List(ctx context.Context, kind *scheme.Kind, view informer.View, minimum int64) (Listing, error) {
	read, err := list(ctx, s.cfg.Client, kind, view, atLeast(minimum), cmp.Or(s.cfg.PageSize, defaultPageSize))
	if err != nil {
		return Listing{}, err
	}
	return Listing{Objects: read.objects, Revision: read.revision, History: read.history}, nil
}

// options returns the list options that select a view; an error if the kind has no such view.
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

// Check returns an error if a kind has no such view.
func Check(kind *scheme.Kind, view informer.View) error {
	_, err := options(kind, view)
	return err
}
