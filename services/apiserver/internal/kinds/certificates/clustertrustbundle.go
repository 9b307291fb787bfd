package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ClusterTrustBundle defines the kind ClusterTrustBundle.
func ClusterTrustBundle() *kinds.Definition {
	type bundle = *certificatesv1.ClusterTrustBundle
	return kinds.Of[bundle]{
		Columns:           clusterTrustBundleColumns(),
		Level:             kinds.Full,
		Validate:          validateClusterTrustBundle,
		Update:            kinds.ChangeOf[bundle]{Validate: validateClusterTrustBundleUpdate},
		ConditionalUpdate: true,
		FieldLabels:       []string{"spec.signerName"},
		Fields:            func(b bundle) fields.Set { return fields.Set{"spec.signerName": b.Spec.SignerName} },
	}.Definition()
}

func clusterTrustBundleColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("SignerName", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
	}, func(b *certificatesv1.ClusterTrustBundle, _ time.Time) []any {
		return []any{b.Name, columns.OrNone(b.Spec.SignerName)}
	})
}
