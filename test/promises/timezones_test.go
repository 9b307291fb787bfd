package promises_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestTimeZonesAreLinked checks that the apiserver knows all time zones in an image without a database
// of them. Only a blank import provides it, which no other test misses on a machine that has one.
func TestTimeZonesAreLinked(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/garboard/garboard/cmd/apiserver").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(out)), "time/tzdata") {
		t.Error("cmd/apiserver does not link time/tzdata: a CronJob's time zone would be unknown")
	}
}
