// Package persist stores the content of informers in files. A program that starts again has its
// former content at once, and asks only for the changes since.
//
//	source := persist.New(persist.Config{Source: fabricsource.New(...), Dir: dir, Table: table})
//	factory := informer.NewFactory(informer.FactoryConfig{Source: source, ...})
//
// As soon as an informer runs, its store holds the content of the file: Indexer and Lister show it,
// and Revision says how old it is. The informer has not synced: HasSynced is false, and handlers
// hear nothing until an apiserver has reported what happened since. Then handlers get every object,
// as always. A program that has to act while it reaches no apiserver may read the store before
// that; it then reads what etcd held at that revision.
//
// A file is used only for the view, the kind and the Version for which it was written, and only if
// it is complete. Any other file is ignored and logged. The file names its history of etcd. If etcd
// has begun another history since, or has compacted the revision, the view is read as a whole.
// Until NATS answers, nothing in the file is trusted: while HTTP takes over, which names no
// history, the view is read as a whole.
//
// Objects of confidential kinds are never written to a file.
package persist

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

const (
	// DefaultEvery is how often a file is written by default.
	DefaultEvery = time.Minute
	minEvery     = time.Second
)

// ErrConfidential is returned when a confidential kind was chosen to be persisted.
var ErrConfidential = errors.New("confidential objects are never written to a file")

// Config configures a source that persists the views it follows.
type Config struct {
	// Source follows the views. Only the views of followers that can resume are persisted (package
	// fabricsource).
	Source informer.Source
	// Table encodes objects.
	Table *scheme.Table
	// Dir is the directory of the files, one for each view. It must exist, and no other source, in
	// this or another process, may persist views there.
	Dir string
	// Only chooses the views to persist; when nil, all views except those of confidential kinds. If
	// it chooses a confidential kind, following that kind is an error.
	Only func(kind *scheme.Kind, view informer.View) bool
	// Version is the program's own: a file written under another version is not used. It must
	// change whenever the informers' transforms change, since their results are what is stored.
	Version string
	// Every is how often changed content is written, the whole view each time; it is written once
	// more at the end. 0 means DefaultEvery; the minimum is a second.
	Every time.Duration
	// Logger logs faults; slog.Default when nil.
	Logger *slog.Logger
}

// Source persists what another source follows.
type Source struct{ cfg Config }

var _ informer.Source = (*Source)(nil)

// New creates a source.
func New(cfg Config) *Source {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Every = max(cmp.Or(cfg.Every, DefaultEvery), minEvery)
	return &Source{cfg}
}

// Follower follows a view, starting from its persisted content.
func (s *Source) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	inner := s.cfg.Source.Follower(kind, view, sink)
	chosen := !kind.Confidential
	if s.cfg.Only != nil {
		chosen = s.cfg.Only(kind, view)
	}
	if !chosen || !inner.Resumes() {
		return inner
	}
	return &follower{
		Follower: inner, cfg: &s.cfg, kind: kind, sink: sink,
		about:  about{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, View: view, Program: s.cfg.Version},
		path:   filepath.Join(s.cfg.Dir, fileName(kind, view)),
		logger: s.cfg.Logger.With("resource", kind.GroupResource().String()),
	}
}

// fileName returns the name of a view's file.
func fileName(kind *scheme.Kind, view informer.View) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{kind.Group, kind.Version, kind.Resource, view.Namespace, view.Name, view.Scope}))
	return fmt.Sprintf("%s-%x.cache", kind.GroupResource(), sum[:8])
}

// follower is a follower whose content is persisted.
type follower struct {
	informer.Follower
	cfg    *Config
	kind   *scheme.Kind
	sink   informer.Sink
	about  about
	path   string
	logger *slog.Logger
	// kept is the position of the file, as far as this process read or wrote it.
	kept fabric.Position
}

// Run follows the view until ctx ends, and writes the file from time to time and at the end.
func (f *follower) Run(ctx context.Context) error {
	if f.kind.Confidential {
		return fmt.Errorf("following %s: %w", f.kind.GroupResource(), ErrConfidential)
	}
	f.resume()
	var writing sync.WaitGroup
	saving, stop := context.WithCancel(ctx)
	writing.Go(func() {
		tick := time.NewTicker(f.cfg.Every)
		defer tick.Stop()
		for {
			select {
			case <-saving.Done():
				return
			case <-tick.C:
				f.save()
			}
		}
	})
	err := f.Follower.Run(ctx)
	stop()
	writing.Wait()
	f.save()
	return err
}

// resume starts from the file, if it is usable.
func (f *follower) resume() {
	content, err := read(f.path, f.cfg.Table, f.kind, f.about)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		if !f.sink.Preload(content.at, content.objects) {
			return
		}
		err = f.Resume(content.at, content.objects)
	}
	if err != nil {
		f.logger.Warn("ignoring a cache file", "file", f.path, "err", err)
		return
	}
	f.kept = content.at
	f.logger.Info("resuming from a cache file", "file", f.path, "revision", content.at.Revision, "objects", len(content.objects))
}

// save writes the file if the view has moved on. Content of an unknown history cannot be resumed,
// and content that was resumed but not confirmed is already in the file.
func (f *follower) save() {
	var c content
	stop := f.sink.Intervals(func(interval informer.Interval) {
		c.at, c.objects = fabric.Position{History: interval.History, Revision: interval.Through}, interval.Objects()
	})
	stop()
	if c.at.History.IsZero() || c.at == f.kept {
		return
	}
	c.about = f.about
	if err := write(f.path, f.cfg.Table, f.kind, c); err != nil {
		f.logger.Warn("writing a cache file failed", "file", f.path, "err", err)
		return
	}
	f.kept = c.at
}
