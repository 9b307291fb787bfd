package node

import (
	"fmt"
	"maps"
	"slices"
	"time"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// RuntimeClass defines the kind RuntimeClass.
func RuntimeClass() *kinds.Definition {
	return kinds.Of[*nodev1.RuntimeClass]{
		Columns:             runtimeClassColumns(),
		Level:               kinds.Full,
		Validate:            validateRuntimeClass,
		Update:              kinds.ChangeOf[*nodev1.RuntimeClass]{Validate: validateRuntimeClassUpdate},
		Warnings:            runtimeClassWarnings,
		AllowCreateOnUpdate: true,
		ConditionalUpdate:   true,
	}.Definition()
}

// runtimeClassWarnings warns about deprecated node labels.
func runtimeClassWarnings(c *nodev1.RuntimeClass) []string {
	if c.Scheduling == nil {
		return nil
	}
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(c.Scheduling.NodeSelector)) {
		if msg := podtemplate.RenamedLabel(key); msg != "" {
			warnings = append(warnings, fmt.Sprintf("scheduling.nodeSelector: %s", msg))
		}
	}
	return warnings
}

func runtimeClassColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("Handler", nodev1.RuntimeClass{}.SwaggerDoc()["handler"]), columns.Age(),
	}, func(c *nodev1.RuntimeClass, now time.Time) []any {
		return []any{c.Name, c.Handler, columns.AgeOf(c, now)}
	})
}
