package embedded

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClientsDoNotFillTheLog checks that violations of clients are rate-limited in the log, and
// hide no other errors.
func TestClientsDoNotFillTheLog(t *testing.T) {
	var out strings.Builder
	l := &logger{log: slog.New(slog.NewTextHandler(&out, nil))}
	for i := range 1000 {
		l.Errorf(fmt.Sprintf("%%s - Subscription Violation - Subject %q", fmt.Sprint("x", i)), "cid:1")
		l.Errorf("%s - Publish Violation - Subject %q", "cid:1", "x")
		l.Errorf("%s - %v", "cid:1", "authentication error")
	}
	l.Errorf("JetStream failed")
	if n := strings.Count(out.String(), "cid:1"); n != 10 {
		t.Errorf("%d of 3000 lines were logged", n)
	}
	if !strings.Contains(out.String(), "JetStream failed") {
		t.Error("another error is not logged")
	}
}
