package etcd

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// quietLogger makes etcd's client log to slog, one level lower: the client warns about every
// refused request, which the caller learns of anyway.
func quietLogger(logger *slog.Logger) *zap.Logger {
	return zap.New(&zapBridge{logger: logger})
}

// zapBridge is a zapcore.Core that writes to slog.
type zapBridge struct{ logger *slog.Logger }

func levelOf(level zapcore.Level) slog.Level {
	switch {
	case level >= zapcore.ErrorLevel:
		return slog.LevelWarn
	case level >= zapcore.WarnLevel:
		return slog.LevelDebug
	}
	return slog.LevelDebug - 4
}

// Enabled reports whether slog accepts the level.
func (b *zapBridge) Enabled(level zapcore.Level) bool {
	return b.logger.Enabled(context.Background(), levelOf(level))
}

// With adds fields to all later entries.
func (b *zapBridge) With(fields []zapcore.Field) zapcore.Core {
	return &zapBridge{logger: b.logger.With(attributes(fields)...)}
}

// Check adds the bridge to an entry that it accepts.
func (b *zapBridge) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(entry.Level) {
		return checked.AddCore(entry, b)
	}
	return checked
}

// Write forwards an entry.
func (b *zapBridge) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	b.logger.Log(context.Background(), levelOf(entry.Level), "etcd's client: "+entry.Message, attributes(fields)...) //nolint:sloglint // etcd's client wrote the message
	return nil
}

// Sync does nothing.
func (b *zapBridge) Sync() error { return nil }

func attributes(fields []zapcore.Field) []any {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	var attrs []any
	for key, value := range encoder.Fields {
		attrs = append(attrs, slog.Any(key, value))
	}
	return attrs
}
