package drain

import (
	"log/slog"
	"time"
)

// Steps logs how an ending goes on, a line a step.
type Steps struct {
	log   *slog.Logger
	began time.Time
}

// NewSteps begins now.
func NewSteps(log *slog.Logger) *Steps { return &Steps{log: log, began: time.Now()} }

// Done logs that a step has been done, and how long it took since the one before.
func (s *Steps) Done(step string, more ...any) {
	now := time.Now()
	s.log.Info("shutting down", append([]any{"done", step, "took", now.Sub(s.began).Round(time.Millisecond)}, more...)...)
	s.began = now
}
