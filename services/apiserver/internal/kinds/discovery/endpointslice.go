package discovery

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/service"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
)

// EndpointSlice defines the kind EndpointSlice.
func EndpointSlice() *kinds.Definition {
	return kinds.Of[*discoveryv1.EndpointSlice]{
		Columns: endpointSliceColumns(),
		Level:   kinds.Full,
		Default: defaultEndpointSlice,
		Create: func(s *discoveryv1.EndpointSlice) {
			s.Generation = 1
			dropTopology(s, nil)
		},
		Validate: validateEndpointSlice,
		Update: kinds.ChangeOf[*discoveryv1.EndpointSlice]{
			Prepare: func(s, old *discoveryv1.EndpointSlice) {
				a, b := s.DeepCopy(), old.DeepCopy()
				a.ObjectMeta, b.ObjectMeta = metav1.ObjectMeta{Labels: s.Labels}, metav1.ObjectMeta{Labels: old.Labels}
				a.TypeMeta, b.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
				if !apiequality.Semantic.DeepEqual(a, b) {
					s.Generation = old.Generation + 1
				}
				dropTopology(s, old)
			},
			Validate: validateEndpointSliceUpdate,
		},
		Warnings: endpointSliceWarnings,
		CreationWarnings: func(s *discoveryv1.EndpointSlice) []string {
			if s.AddressType != discoveryv1.AddressTypeFQDN {
				return nil
			}
			return []string{"spec.addressType: FQDN endpoints are deprecated"}
		},
	}.Definition()
}

// dropTopology drops the topology of older versions of the API, unless the endpoints are unchanged.
// A node name in the old topology is moved to its present field.
func dropTopology(s, old *discoveryv1.EndpointSlice) {
	if old != nil && apiequality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		return
	}
	known := map[string]bool{}
	if old != nil {
		for _, endpoint := range old.Endpoints {
			known[endpoint.DeprecatedTopology[corev1.LabelHostname]] = true
		}
	}
	for i := range s.Endpoints {
		endpoint := &s.Endpoints[i]
		name, ok := endpoint.DeprecatedTopology[corev1.LabelHostname]
		if ok && endpoint.NodeName == nil && known[name] && len(apivalidation.NameIsDNSSubdomain(name, false)) == 0 {
			endpoint.NodeName = &name
		}
		endpoint.DeprecatedTopology = nil
	}
}

func endpointSliceWarnings(s *discoveryv1.EndpointSlice) []string {
	by := s.Labels[discoveryv1.LabelManagedBy]
	if by == service.SlicesController || by == service.MirroringController {
		return nil
	}
	var warnings []string
	for i := range s.Endpoints {
		for n, address := range s.Endpoints[i].Addresses {
			warnings = append(warnings, network.IPWarnings(field.NewPath("endpoints").Index(i).Child("addresses").Index(n), address)...)
		}
	}
	return warnings
}

// defaultEndpointSlice sets the defaults of an endpoint slice.
func defaultEndpointSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		kinds.Fill(&s.Ports[i].Name, "")
		kinds.Fill(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func endpointSliceColumns() *columns.Layout {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("AddressType", doc["addressType"]), columns.Text("Ports", doc["ports"]), columns.Text("Endpoints", doc["endpoints"]), columns.Age(),
	}, func(s *discoveryv1.EndpointSlice, now time.Time) []any {
		var ports, addresses []string
		for _, p := range s.Ports {
			switch {
			case p.Port != nil:
				ports = append(ports, strconv.Itoa(int(*p.Port)))
			case p.Name != nil:
				ports = append(ports, *p.Name)
			default:
				ports = append(ports, "*")
			}
		}
		for _, e := range s.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
		return []any{s.Name, string(s.AddressType), firstFew(ports), firstFew(addresses), columns.AgeOf(s, now)}
	})
}

func firstFew(all []string) string {
	if len(all) > columns.Shown {
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:columns.Shown], ","), len(all)-columns.Shown)
	}
	if text := strings.Join(all, ","); text != "" {
		return text
	}
	return columns.Unset
}
