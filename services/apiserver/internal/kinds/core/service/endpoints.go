package service

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
)

// Labels by which controllers mark addresses that they wrote, which are then in canonical form.
const (
	endpointsManagedBy  = "endpoints.kubernetes.io/managed-by"
	endpointsController = "endpoint-controller"
	SlicesController    = "endpointslice-controller.k8s.io"
	MirroringController = "endpointslicemirroring-controller.k8s.io"
)

// Endpoints defines the kind Endpoints.
func Endpoints() *kinds.Definition {
	return kinds.Of[*corev1.Endpoints]{
		Columns:             endpointsColumns(),
		Level:               kinds.Full,
		Default:             defaultEndpoints,
		Validate:            validateEndpoints,
		Update:              kinds.ChangeOf[*corev1.Endpoints]{Validate: validateEndpointsUpdate},
		Warnings:            endpointsWarnings,
		AllowCreateOnUpdate: true,
	}.Definition()
}

func endpointsWarnings(e *corev1.Endpoints) []string {
	if e.Labels[endpointsManagedBy] == endpointsController {
		return nil
	}
	var warnings []string
	for i, subset := range e.Subsets {
		at := field.NewPath("subsets").Index(i)
		for n, address := range subset.Addresses {
			warnings = append(warnings, network.IPWarnings(at.Child("addresses").Index(n).Child("ip"), address.IP)...)
		}
		for n, address := range subset.NotReadyAddresses {
			warnings = append(warnings, network.IPWarnings(at.Child("notReadyAddresses").Index(n).Child("ip"), address.IP)...)
		}
	}
	return warnings
}

// defaultEndpoints sets the defaults of endpoints.
func defaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for n := range e.Subsets[i].Ports {
			kinds.FillString(&e.Subsets[i].Ports[n].Protocol, corev1.ProtocolTCP)
		}
	}
}

func endpointsColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"]), columns.Age(),
	}, func(e *corev1.Endpoints, now time.Time) []any {
		return []any{e.Name, endpointList(e.Subsets), columns.AgeOf(e, now)}
	})
}

// endpointList names the first few ready addresses.
func endpointList(subsets []corev1.EndpointSubset) string {
	if len(subsets) == 0 {
		return columns.None
	}
	var all []string
	for _, subset := range subsets {
		for _, address := range subset.Addresses {
			if len(subset.Ports) == 0 {
				all = append(all, address.IP)
			}
		}
		for _, port := range subset.Ports {
			for _, address := range subset.Addresses {
				all = append(all, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	if len(all) > columns.Shown {
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:columns.Shown], ","), len(all)-columns.Shown)
	}
	return strings.Join(all, ",")
}
