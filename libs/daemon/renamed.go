package daemon

import (
	"fmt"

	"github.com/spf13/pflag"
)

// Renamed declares the old name of a flag. It appears in no help text. Setting it, on the command
// line or by its environment variable, is an error that states the new name.
func Renamed(flags *pflag.FlagSet, old, name string) {
	flags.Var(renamed(name), old, "renamed to --"+name)
	flags.Lookup(old).Hidden = true
}

// renamed is the value of a flag that has another name now.
type renamed string

// Set returns an error that states the new name.
func (r renamed) Set(string) error { return fmt.Errorf("this flag was renamed to --%s", string(r)) }

// String returns the default, which is empty.
func (r renamed) String() string { return "" }

// Type returns what the help text would show.
func (r renamed) Type() string { return "string" }
