package logid_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/garboard/garboard/services/apiserver/internal/http/logid"
)

func TestHandler(t *testing.T) {
	for name, c := range map[string]struct {
		log  func(t *testing.T, log *slog.Logger)
		want string
	}{
		"with the context":     {func(t *testing.T, log *slog.Logger) { log.InfoContext(logid.With(t.Context(), "one"), "m", "a", 1) }, `{"level":"INFO","msg":"m","a":1,"audit-ID":"one"}`},
		"with another context": {func(t *testing.T, log *slog.Logger) { log.InfoContext(t.Context(), "m") }, `{"level":"INFO","msg":"m"}`},
		"without":              {func(_ *testing.T, log *slog.Logger) { log.Info("m") }, `{"level":"INFO","msg":"m"}`},
		"with attributes": {func(t *testing.T, log *slog.Logger) {
			log.With("service", "s").InfoContext(logid.With(t.Context(), "one"), "m")
		}, `{"level":"INFO","msg":"m","service":"s","audit-ID":"one"}`},
		"a long ID": {func(t *testing.T, log *slog.Logger) {
			log.InfoContext(logid.With(t.Context(), strings.Repeat("x", 100)), "m")
		}, `{"level":"INFO","msg":"m","audit-ID":"` + strings.Repeat("x", 64) + `"}`},
		"below the level": {func(t *testing.T, log *slog.Logger) { log.DebugContext(logid.With(t.Context(), "one"), "m") }, ``},
	} {
		var out bytes.Buffer
		handler := logid.Handler(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		c.log(t, slog.New(logid.Handler(handler)))
		if got := strings.TrimSpace(out.String()); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if c.want != "" && !json.Valid(out.Bytes()) {
			t.Errorf("%s: %s is not JSON", name, out.String())
		}
	}
}
