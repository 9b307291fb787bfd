package server

import (
	"context"
	"log/slog"
)

// quiet passes on what libraries log about sessions, at the level of debugging: to them each client that
// hangs up is an error. It drops what they log for debugging, which has the headers of requests.
type quiet struct{ slog.Handler }

// Enabled reports whether a record of a library is passed on.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && q.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle passes on a record.
func (q quiet) Handle(ctx context.Context, record slog.Record) error {
	record.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, record)
}

// WithAttrs returns a handler that adds attributes.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup returns a handler that opens a group.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
