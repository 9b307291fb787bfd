package daemon

import (
	"fmt"
	"io"
	"log/slog"

	"k8s.io/klog/v2"
)

// NewLogger returns the logger of a process. Level is debug, info, warn or error; format is text or
// json.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("--log-format %q: want text or json", format)
}

// BridgeLibraryLogs sends the logs of the Kubernetes libraries to log. Call it once at process
// start: their logger is global.
func BridgeLibraryLogs(log *slog.Logger) {
	klog.SetSlogLogger(log.With("from", "klog"))
}
