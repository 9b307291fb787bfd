package builtin

import (
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Catalog returns a catalog of the built-in kinds in a cluster as config describes it.
func Catalog(table *scheme.Table, config Config) (*kinds.Catalog, error) {
	return kinds.NewCatalog(table, All(config))
}
