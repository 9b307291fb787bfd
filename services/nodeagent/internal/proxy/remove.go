package proxy

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/garboard/garboard/services/nodeagent/internal/nft"
	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// Remove removes the rules that a Proxy has left in the kernel. The table is DefaultTable if empty.
func Remove(table string) error {
	conn, err := nft.Open()
	if err != nil {
		return fmt.Errorf("removing the rules of Services: %w", err)
	}
	var faults []error
	for _, family := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		faults = append(faults, conn.DeleteTable(family, cmp.Or(table, DefaultTable)))
	}
	return errors.Join(append(faults, conn.Close())...)
}
