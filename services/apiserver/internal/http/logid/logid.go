// Package logid adds the ID of a request to its log lines: the request's context carries the ID,
// and a handler adds it to every line logged with that context.
package logid

import (
	"context"
	"log/slog"
)

// key is the log attribute that holds the ID, as in Kubernetes' logs.
const key = "audit-ID"

// maxLength limits an ID in the log, in bytes, since clients choose it. It is Kubernetes' limit.
const maxLength = 64

type idKey struct{}

// With returns the context of a request with an ID.
func With(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, idKey{}, id[:min(len(id), maxLength)])
}

// Handler returns inner extended by the ID of the request in lines logged with the request's
// context. Wrapping a handler twice does not add the ID twice.
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
		record.AddAttrs(slog.String(key, id)) //nolint:sloglint // the key is Kubernetes'
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
