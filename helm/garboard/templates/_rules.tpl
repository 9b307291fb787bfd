{{/*
The alerts that are left out, as a JSON object that maps each to the reason. They are the disabled
alerts, and alerts about the absence of a service that Prometheus does not scrape, which would always fire.
*/}}
{{- define "garboard.rules.left" -}}
{{- $left := dict -}}
{{- range $component, $alert := dict "apiserver" "GarboardApiserverDown" "controllers" "GarboardControllersIdle" "scheduler" "GarboardSchedulerIdle" -}}
{{- if not (index $.Values $component).serviceMonitor.enabled -}}
{{- $_ := set $left $alert (printf "%s.serviceMonitor.enabled is false" $component) -}}
{{- end -}}
{{- end -}}
{{- range .Values.prometheusRule.disabledAlerts -}}
{{- $_ := set $left . "" -}}
{{- end -}}
{{ toJson $left }}
{{- end }}
