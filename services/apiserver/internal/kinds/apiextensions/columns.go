package apiextensions

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

func customResourceDefinitionColumns() *columns.Layout {
	docs := metav1.ObjectMeta{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: docs["name"]},
		{Name: "Scope", Type: "string", Description: "Cluster/Namespaced"},
		{Name: "Versions", Type: "string", Description: "Served versions"},
		{Name: "Created At", Type: "date", Description: docs["creationTimestamp"]},
		{Name: "Group", Type: "string", Priority: 1, Description: "API group"},
		{Name: "Kind", Type: "string", Priority: 1, Description: "CustomResource kind"},
		{Name: "ShortNames", Type: "string", Priority: 1, Description: "Short names"},
		{Name: "Established", Type: "boolean", Priority: 1, Description: "Established status"},
	}, func(c crd, _ time.Time) []any {
		return []any{
			c.Name, string(c.Spec.Scope), servedVersions(c), c.CreationTimestamp.UTC().Format(time.RFC3339),
			c.Spec.Group, c.Spec.Names.Kind, strings.Join(c.Spec.Names.ShortNames, ","),
			apihelpers.IsCRDConditionTrue(c, apiextensionsv1.Established),
		}
	})
}

// servedVersions returns the served versions, with the stored one marked.
func servedVersions(c crd) string {
	var served []string
	for _, version := range c.Spec.Versions {
		switch {
		case version.Served && version.Storage:
			served = append(served, version.Name+"(storage)")
		case version.Served:
			served = append(served, version.Name)
		}
	}
	slices.Sort(served)
	return strings.Join(served, ",")
}
