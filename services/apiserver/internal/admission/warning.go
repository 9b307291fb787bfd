package admission

import "context"

type warningsKey struct{}

// WithWarnings returns a context in which plugins pass warnings for the client to add. add is
// called while the request is in flight, on its goroutine. It may get the same text more than once.
func WithWarnings(ctx context.Context, add func(text string)) context.Context {
	return context.WithValue(ctx, warningsKey{}, add)
}

// Warn warns the client of ctx's request, if WithWarnings has set a receiver.
func Warn(ctx context.Context, texts ...string) {
	if add, ok := ctx.Value(warningsKey{}).(func(string)); ok {
		for _, text := range texts {
			add(text)
		}
	}
}
