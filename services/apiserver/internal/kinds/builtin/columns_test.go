package builtin

import (
	"testing"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestEveryKindHasColumnsAndAsManyCells(t *testing.T) {
	for _, kind := range scheme.New().Kinds() {
		if kind.Virtual {
			continue
		}
		table := All(Config{})[kind.GroupVersionKind].Columns.Table([]scheme.Object{kind.New()}, nil, columns.Options{}, kindtest.Now())
		if len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
			t.Errorf("%s has %d columns and %d cells", kind.Kind, len(table.ColumnDefinitions), len(table.Rows[0].Cells))
		}
		for _, column := range table.ColumnDefinitions {
			if column.Description == "" {
				t.Errorf("%s: column %s has no description", kind.Kind, column.Name)
			}
		}
	}
}
