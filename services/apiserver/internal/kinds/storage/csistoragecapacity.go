package storage

import (
	"fmt"
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// CSIStorageCapacity defines the kind CSIStorageCapacity.
func CSIStorageCapacity() *kinds.Definition {
	return kinds.Of[*storagev1.CSIStorageCapacity]{
		Level:             kinds.Full,
		Validate:          validateStorageCapacity,
		Update:            kinds.ChangeOf[*storagev1.CSIStorageCapacity]{Validate: validateStorageCapacityUpdate},
		Warnings:          storageCapacityWarnings,
		ConditionalUpdate: true,
	}.Definition()
}

// storageCapacityWarnings warns about deprecated node labels.
func storageCapacityWarnings(c *storagev1.CSIStorageCapacity) []string {
	if c.NodeTopology == nil {
		return nil
	}
	var warnings []string
	for i, expression := range c.NodeTopology.MatchExpressions {
		if msg := podtemplate.RenamedLabel(expression.Key); msg != "" {
			warnings = append(warnings, fmt.Sprintf("nodeTopology.matchExpressions[%d].key: %s is %s", i, expression.Key, msg))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.NodeTopology.MatchLabels)) {
		if msg := podtemplate.RenamedLabel(key); msg != "" {
			warnings = append(warnings, fmt.Sprintf("nodeTopology.matchLabels.%s: %s", key, msg))
		}
	}
	return warnings
}
