package apiregistration

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// servicePort is the default port of the service behind an API.
const servicePort = 443

// APIService defines the kind APIService.
func APIService() *kinds.Definition {
	type service = *apiregistrationv1.APIService
	return kinds.Of[service]{
		Columns: apiServiceColumns(),
		Level:   kinds.Full,
		Default: defaultAPIService,
		Create: func(s service) {
			s.Status = apiregistrationv1.APIServiceStatus{}
			if s.Spec.Service == nil {
				s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
					Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.Now().Rfc3339Copy(),
					Reason: "Local", Message: "Local APIServices are always available",
				}}
			}
		},
		Validate: ValidateAPIService,
		Update: kinds.ChangeOf[service]{
			Prepare:  func(s, old service) { s.Status = *old.Status.DeepCopy() },
			Validate: validateAPIServiceUpdate,
		},
		Subresources: map[string]kinds.ChangeOf[service]{"status": {
			Prepare: func(s, old service) {
				s.Spec = *old.Spec.DeepCopy()
				kinds.KeepMetadata(s, old)
			},
			Validate: validateAPIServiceStatus,
		}},
		ConditionalUpdate: true,
	}.Definition()
}

// defaultAPIService sets the defaults of an API service.
func defaultAPIService(s *apiregistrationv1.APIService) {
	if s.Spec.Service != nil {
		kinds.Fill(&s.Spec.Service.Port, int32(servicePort))
	}
}

func apiServiceColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Service", "The reference to the service that hosts this API endpoint."),
		columns.Text("Available", "Whether this service is available."),
		columns.Age(),
	}, func(s *apiregistrationv1.APIService, now time.Time) []any {
		service, available := "Local", string(apiregistrationv1.ConditionUnknown)
		if ref := s.Spec.Service; ref != nil {
			service = ref.Namespace + "/" + ref.Name
		}
		for _, condition := range s.Status.Conditions {
			if condition.Type != apiregistrationv1.Available {
				continue
			}
			available = string(condition.Status)
			if condition.Status != apiregistrationv1.ConditionTrue && condition.Reason != "" {
				available = fmt.Sprintf("%s (%s)", condition.Status, condition.Reason)
			}
			break
		}
		return []any{s.Name, service, available, columns.AgeOf(s, now)}
	})
}
