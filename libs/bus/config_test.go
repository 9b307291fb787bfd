package bus_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
)

func TestServers(t *testing.T) {
	for text, want := range map[string]string{
		"nats://10.0.0.1:4222":                     "nats://10.0.0.1:4222",
		"10.0.0.1:4222":                            "10.0.0.1:4222",
		"tls://jane:p@ss@h:1":                      "tls://xxxxx@h:1",
		"secret-token@h":                           "xxxxx@h",
		"nats://a:secret@h1:1,nats://b:secret@h2:": "nats://xxxxx@h1:1, nats://xxxxx@h2:",
	} {
		if got := (bus.Config{URLs: []string{text}}).Servers(); got != want {
			t.Errorf("Servers() of %s = %s", text, got)
		}
	}
}

// TestPasswordsAreNotShown checks that neither the log nor an error reveals a URL's credentials.
func TestPasswordsAreNotShown(t *testing.T) {
	var log strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := bus.Connect(ctx, bus.Config{
		URLs: []string{"nats://jane:secret@127.0.0.1:1"}, Name: "test", Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err == nil {
		t.Fatal("connected without a server")
	}
	if said := log.String() + err.Error(); strings.Contains(said, "secret") || !strings.Contains(said, "127.0.0.1:1") {
		t.Errorf("a password is shown: %s", said)
	}
}
