package daemon

import (
	"maps"
	"testing"

	"github.com/spf13/pflag"
)

// TestValues checks which values of flags are shown, as they are now.
func TestValues(t *testing.T) {
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	flags.Int("nodes", 1, "")
	flags.StringSlice("servers", nil, "")
	flags.String("password", "", "")
	flags.String("other-password", "", "")
	Secret(flags, "password")
	Secret(flags, "other-password")
	if err := flags.Parse([]string{"--nodes=3", "--servers=nats://ann:hush@a:1,nats://b:2", "--password=hush"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"nodes": "3", "servers": "[nats://CLASSIFIED@a:1,nats://b:2]", "password": "CLASSIFIED", "other-password": "",
	}
	if got := Values(flags); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
