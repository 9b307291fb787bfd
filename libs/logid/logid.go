// Package logid has log lines about a request name it: the request's ID travels in its context,
// and a handler adds it to every line that is logged with that context.
package logid

import (
	"context"
	"log/slog"
)

// Key is the attribute of log lines that holds the ID; it is what Kubernetes calls it in its log.
const Key = "audit-ID"

// maxLength bounds an ID in the log, in bytes: clients choose it. It is Kubernetes' bound.
const maxLength = 64

type idKey struct{}

// With gives a context of the request with an ID.
func With(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, idKey{}, id[:min(len(id), maxLength)])
}

// Handler is inner, with the ID of the request added to lines that are logged with its context.
// It is not added twice, however often a handler is made of a handler.
func Handler(inner slog.Handler) slog.Handler {
	if _, ok := inner.(handler); ok {
		return inner
	}
	return handler{inner}
}

type handler struct{ slog.Handler }

// Handle adds the ID.
func (h handler) Handle(ctx context.Context, record slog.Record) error {
	if id, ok := ctx.Value(idKey{}).(string); ok {
		record = record.Clone()
		record.AddAttrs(slog.String(Key, id))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs is slog.Handler's.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup is slog.Handler's.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
