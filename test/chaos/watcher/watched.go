package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/chaos/record"
)

// watched is an informer of any type.
type watched struct {
	run     func(ctx context.Context) error
	content func() record.Event
}

// begin creates an informer whose statements and handler calls are reported.
func begin[T scheme.Object](p *program, id int, view informer.View, source informer.Source) *watched {
	shared := informer.NewSharedInformer[T](informer.Config{
		Source: reportingSource{source, p, id}, Table: p.table, Logger: p.logger, Service: p.process, Backlog: -1,
	}, view)
	return &watched{
		run: func(ctx context.Context) error {
			if _, err := shared.AddEventHandler(handler[T]{p, id, ctx.Done()}); err != nil {
				return err
			}
			return shared.Run(ctx)
		},
		content: func() record.Event {
			e := record.Event{Informer: id, What: record.Content, Revision: shared.Revision()}
			for _, obj := range shared.Indexer().List() {
				o := of(obj)
				hash, err := record.HashOf(obj)
				if err != nil {
					p.logger.Error("could not hash an object", "err", err)
				}
				o.Hash = hash
				e.Objects = append(e.Objects, o)
			}
			return e
		},
	}
}

func of(obj scheme.Object) record.Object {
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		revision = -1
	}
	return record.Object{Key: obj.GetNamespace() + "/" + obj.GetName(), UID: string(obj.GetUID()), Revision: revision}
}

// handler reports its calls. Every third one can be blocked.
type handler[T scheme.Object] struct {
	p    *program
	id   int
	done <-chan struct{}
}

func (h handler[T]) report(what string, objects ...record.Object) {
	if h.id%3 == 0 {
		h.p.wait(h.done, &h.p.block)
	}
	h.p.report(record.Event{Informer: h.id, What: what, Objects: objects})
}

// OnAdd reports an add.
func (h handler[T]) OnAdd(obj T, _ bool) { h.report(record.Add, of(obj)) }

// OnUpdate reports an update.
func (h handler[T]) OnUpdate(oldObj, newObj T) { h.report(record.Update, of(oldObj), of(newObj)) }

// OnDelete reports a delete.
func (h handler[T]) OnDelete(gone informer.DeletedObject[T]) {
	o := record.Object{Key: gone.Key}
	var unknown T
	if any(gone.OptionalObj) != any(unknown) {
		o.UID = string(gone.OptionalObj.GetUID())
	}
	h.report(record.Delete, o)
}

// reportingSource is a source that reports its followers' statements before it passes them on.
type reportingSource struct {
	source informer.Source
	p      *program
	id     int
}

func (s reportingSource) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	return s.source.Follower(kind, view, &tee{Sink: sink, reportingSource: s})
}

// tee reports what the informer receives.
type tee struct {
	informer.Sink
	reportingSource
}

// Replace reports a whole view.
func (t *tee) Replace(at fabric.Position, objects []informer.Object) {
	t.gate()
	e := record.Event{Informer: t.id, What: record.Replace, Revision: at.Revision}
	for _, obj := range objects {
		e.Objects = append(e.Objects, of(obj))
	}
	t.p.report(e)
	t.Sink.Replace(at, objects)
}

// Apply reports changes.
func (t *tee) Apply(changes []informer.Change, revision int64) {
	t.gate()
	e := record.Event{Informer: t.id, What: record.Apply, Revision: revision}
	for _, c := range changes {
		e.Objects = append(e.Objects, record.Object{Key: c.Namespace + "/" + c.Name, UID: c.UID, Revision: c.Revision, Deleted: c.Deleted})
	}
	t.p.report(e)
	t.Sink.Apply(changes, revision)
}

// gate blocks every second informer here while the harness wants a slow subscriber.
func (t *tee) gate() {
	if t.id%2 == 0 {
		t.p.wait(nil, &t.p.stall)
	}
}

// WatchError passes the call on.
func (t *tee) WatchError(ctx context.Context, err error) {
	t.p.logger.Warn("cannot follow", "informer", fmt.Sprint(t.id), "err", err)
	t.Sink.WatchError(ctx, err)
}
