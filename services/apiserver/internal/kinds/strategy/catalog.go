package strategy

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Catalog returns a catalog of the built-in kinds; families are those of All.
func Catalog(table *scheme.Table, families ...corev1.IPFamily) (*kinds.Catalog, error) {
	return kinds.NewCatalog(table, All(families...))
}
