package admission

import "context"

type warningsKey struct{}

// WithWarnings gives a context whose plugins tell add what the client should be warned of. add
// is called while the request is in work, on its goroutine; it may hear a text more than once.
func WithWarnings(ctx context.Context, add func(text string)) context.Context {
	return context.WithValue(ctx, warningsKey{}, add)
}

// Warn tells the client of the request of ctx, if it listens.
func Warn(ctx context.Context, text string) {
	if add, ok := ctx.Value(warningsKey{}).(func(string)); ok {
		add(text)
	}
}
