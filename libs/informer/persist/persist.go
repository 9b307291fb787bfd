// Package persist keeps what informers hold in files, so that a program that starts again knows at
// once what it knew before, and asks only for what has changed since.
//
//	source := keep.New(keep.Config{Source: follow.New(...), Dir: dir, Table: table})
//	factory := informer.NewFactory(informer.FactoryConfig{Source: source, ...})
//
// As soon as an informer runs, its store holds what the file held: Indexer and Lister show it,
// and Revision says how old it is. It has not synced: HasSynced is false and handlers are told
// nothing until an apiserver has said what happened since. Then handlers are told of all there is, as
// always. A program that has to act while it reaches nobody may read the store before that; what
// it reads is what etcd held at that revision.
//
// A file is only used for the view, the kind and the Version it was written for, and only if it
// is whole: any other is left aside with a line in the log. It names the history of etcd that it
// is of; if etcd has begun another since, or forgotten the revision, the view is read as a whole.
// Until NATS answers nothing of the file is believed: while HTTP takes over, which names no
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

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

const (
	// DefaultEvery is how often a file is written when nothing else is said.
	DefaultEvery = time.Minute
	minEvery     = time.Second
)

// ErrConfidential is the error of following a confidential kind that was to be kept.
var ErrConfidential = errors.New("confidential objects are never kept in a file")

// Config is what a source needs to keep what it follows.
type Config struct {
	// Source follows the views. Only followers that can resume are kept (package follow).
	Source informer.Source
	// Table encodes objects.
	Table *scheme.Table
	// Dir is the folder of the files, one for each view. It must exist, and nobody else, not
	// another process either, may keep views there.
	Dir string
	// Only says which views are kept; all but those of confidential kinds when nil. Following a
	// confidential kind that it chooses is an error.
	Only func(kind *scheme.Kind, view informer.View) bool
	// Version is the program's own: a file that was written under another is not used. It must
	// change with what the informers' transforms do, since what they gave is what is kept.
	Version string
	// Every is how often what has changed is written, the whole view each time, and once more at
	// the end; DefaultEvery when 0, a second at least.
	Every time.Duration
	// Logger takes what goes wrong; slog.Default when nil.
	Logger *slog.Logger
}

// Source keeps what another source follows.
type Source struct{ cfg Config }

var _ informer.Source = (*Source)(nil)

// New makes a source.
func New(cfg Config) *Source {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Every = max(cmp.Or(cfg.Every, DefaultEvery), minEvery)
	return &Source{cfg}
}

// Follower follows a view, beginning with what was kept of it.
func (s *Source) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	inner := s.cfg.Source.Follower(kind, view, sink)
	chosen := !kind.Confidential
	if s.cfg.Only != nil {
		chosen = s.cfg.Only(kind, view)
	}
	stretches, tells := sink.(informer.Stretcher)
	resumer, resumes := inner.(informer.Resumer)
	if !chosen || !tells || !resumes {
		return inner
	}
	return &follower{
		Follower: inner, cfg: &s.cfg, kind: kind, stretches: stretches, resumer: resumer,
		about:  about{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, View: view, Program: s.cfg.Version},
		path:   filepath.Join(s.cfg.Dir, fileName(kind, view)),
		logger: s.cfg.Logger.With("resource", kind.GroupResource().String()),
	}
}

// fileName is the name of a view's file.
func fileName(kind *scheme.Kind, view informer.View) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{kind.Group, kind.Version, kind.Resource, view.Namespace, view.Name, view.Scope}))
	return fmt.Sprintf("%s-%x.cache", kind.GroupResource(), sum[:8])
}

// follower is a follower whose content is kept.
type follower struct {
	informer.Follower
	cfg       *Config
	kind      *scheme.Kind
	stretches informer.Stretcher
	resumer   informer.Resumer
	about     about
	path      string
	logger    *slog.Logger
	// kept is what the file is of, as far as this process wrote it.
	kept place
}

// place is a revision of a history.
type place struct {
	history  string
	revision int64
}

var _ informer.Refresher = (*follower)(nil)

// Refresh returns when the content is as new as etcd was at the call.
func (f *follower) Refresh(ctx context.Context) error {
	if fresh, ok := f.Follower.(informer.Refresher); ok {
		return fresh.Refresh(ctx)
	}
	return informer.ErrNotFresh
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

// resume begins with what the file holds, if it is of use.
func (f *follower) resume() {
	content, err := read(f.path, f.cfg.Table, f.kind, f.about)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = f.resumer.Resume(content.History, content.Revision, content.objects)
	}
	if err != nil {
		f.logger.Warn("A file with what was known before is not used", "file", f.path, "err", err)
		return
	}
	f.stretches.Preload(content.History, content.Revision, content.objects)
	f.kept = place{content.History, content.Revision}
	f.logger.Info("Resuming with what was known before", "file", f.path, "revision", content.Revision, "objects", len(content.objects))
}

// save writes the file if the view has moved on. What is not known to be of a history cannot be
// resumed, and what was resumed and not confirmed is in the file already.
func (f *follower) save() {
	var c content
	stop := f.stretches.Stretches(func(stretch informer.Stretch) {
		c.History, c.Revision, c.objects = stretch.History, stretch.Through, stretch.Objects()
	})
	stop()
	now := place{c.History, c.Revision}
	if c.History == "" || now == f.kept {
		return
	}
	c.about = f.about
	if err := write(f.path, f.cfg.Table, f.kind, c); err != nil {
		f.logger.Warn("What is known could not be written for the next start", "file", f.path, "err", err)
		return
	}
	f.kept = now
}
