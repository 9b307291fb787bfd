package coordination

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// Lease defines the kind Lease.
func Lease() *kinds.Definition {
	return kinds.Of[*coordinationv1.Lease]{
		Columns:             leaseColumns(),
		Level:               kinds.Full,
		Validate:            ValidateLease,
		Update:              kinds.ChangeOf[*coordinationv1.Lease]{Validate: func(l, _ *coordinationv1.Lease) field.ErrorList { return ValidateLease(l) }},
		AllowCreateOnUpdate: true,
		ConditionalUpdate:   true,
	}.Definition()
}

func leaseColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]), columns.Age(),
	}, func(l *coordinationv1.Lease, now time.Time) []any {
		holder := ""
		if l.Spec.HolderIdentity != nil {
			holder = *l.Spec.HolderIdentity
		}
		return []any{l.Name, holder, columns.AgeOf(l, now)}
	})
}
