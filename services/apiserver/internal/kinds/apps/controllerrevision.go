package apps

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ControllerRevision defines the kind ControllerRevision.
func ControllerRevision() *kinds.Definition {
	return kinds.Of[*appsv1.ControllerRevision]{
		Columns:  controllerRevisionColumns(),
		Level:    kinds.Full,
		Validate: validateControllerRevision,
		Update:   kinds.ChangeOf[*appsv1.ControllerRevision]{Validate: validateControllerRevisionUpdate},
	}.Definition()
}

func controllerRevisionColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Controller", "Controller of the object"),
		columns.Text("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
		columns.Age(),
	}, func(r *appsv1.ControllerRevision, now time.Time) []any {
		controller := columns.None
		if owner := metav1.GetControllerOf(r); owner != nil {
			controller = owner.Name
			// A version that is not well-formed has no group.
			if kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind(); !kind.Empty() {
				controller = strings.ToLower(kind.String()) + "/" + owner.Name
			}
		}
		return []any{r.Name, controller, r.Revision, columns.AgeOf(r, now)}
	})
}
