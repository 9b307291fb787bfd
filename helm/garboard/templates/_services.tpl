{{/* Parts specific to the pods of each service; see garboard.podTemplate. */}}

{{- define "garboard.apiserver.own" -}}
args:
  - --listen=0.0.0.0:6443
  - --cert-dir=/etc/garboard/pki
  - --tls-cert-file=/etc/garboard/pki/tls.crt
  - --tls-private-key-file=/etc/garboard/pki/tls.key
  - --service-cluster-ip-range={{ .Values.apiserver.serviceClusterIPRange }}
  - --shutdown-delay-duration={{ .Values.apiserver.shutdownDelayDuration }}
  - --etcd-servers={{ include "garboard.etcd.endpoints" . }}
  {{- if eq .Values.etcd.mode "external" }}
  - --etcd-cafile=/etc/garboard/etcd/ca.crt
  - --etcd-certfile=/etc/garboard/etcd/tls.crt
  - --etcd-keyfile=/etc/garboard/etcd/tls.key
  {{- else }}
  - --etcd-cafile=/etc/garboard/pki/etcd-ca.crt
  - --etcd-certfile=/etc/garboard/pki/etcd-client.crt
  - --etcd-keyfile=/etc/garboard/pki/etcd-client.key
  {{- end }}
  {{- include "garboard.commonArgs" . | nindent 2 }}
  {{- if eq .Values.nats.mode "builtin" }}
  - --nats-cert-file=/etc/garboard/pki/nats-client.crt
  - --nats-key-file=/etc/garboard/pki/nats-client.key
  {{- else if .Values.nats.external.clientCertificates }}
  - --nats-cert-file=/etc/garboard/nats/tls.crt
  - --nats-key-file=/etc/garboard/nats/tls.key
  {{- end }}
  - --nats-log-replicas={{ .Values.nats.logReplicas }}
ports:
  - { name: https, containerPort: 6443 }
probes:
  {{- include "garboard.probes" (list "HTTPS" "https" "/livez" "/readyz") | nindent 2 }}
volumeMounts:
  - { name: pki, mountPath: /etc/garboard/pki, readOnly: true }
  {{- if eq .Values.etcd.mode "external" }}
  - { name: etcd, mountPath: /etc/garboard/etcd, readOnly: true }
  {{- end }}
  {{- if eq .Values.nats.mode "external" }}
  - { name: nats, mountPath: /etc/garboard/nats, readOnly: true }
  {{- end }}
volumes:
  {{- include "garboard.pki" (list . "apiserver") | nindent 2 }}
  {{- if eq .Values.etcd.mode "external" }}
  - name: etcd
    secret: { secretName: {{ .Values.etcd.external.existingSecret | quote }}, defaultMode: 0440 }
  {{- end }}
  {{- include "garboard.nats.volume" . | nindent 2 }}
{{- end }}

{{- define "garboard.controllers.args" -}}
- --kubeconfig=/etc/garboard/pki/kubeconfig
- --health-address=0.0.0.0:10257
- --cluster-signing-cert-file=/etc/garboard/pki/ca.crt
- --cluster-signing-key-file=/etc/garboard/pki/ca.key
- --service-account-private-key-file=/etc/garboard/pki/sa.key
{{- with .Values.controllers.clusterCIDR }}
- --allocate-node-cidrs
- {{ printf "--cluster-cidr=%s" . | quote }}
- {{ printf "--service-cluster-ip-range=%s" $.Values.apiserver.serviceClusterIPRange | quote }}
{{- end }}
- {{ printf "--local-path-storage-class=%s" .Values.controllers.localPathStorageClass | quote }}
{{ include "garboard.commonArgs" . }}
{{- end }}

{{/* Further Deployments of controllers, as a JSON list. No controller may run in two of them. */}}
{{- define "garboard.controllers.split" -}}
{{- $names := dict -}}
{{- $all := list -}}
{{- range .Values.controllers.split -}}
{{- if hasKey $names .name }}{{ fail (printf "controllers.split: there are two Deployments %s" .name) }}{{ end -}}
{{- $_ := set $names .name true -}}
{{- range $controller := .controllers -}}
{{- if has $controller $all }}{{ fail (printf "controllers.split: %s is in two Deployments" $controller) }}{{ end -}}
{{- $all = append $all $controller -}}
{{- end -}}
{{- end -}}
{{- $split := list -}}
{{- range .Values.controllers.split -}}
{{- $split = append $split (dict "name" .name "controllers" .controllers "replicas" (ternary .replicas $.Values.controllers.replicas (hasKey . "replicas"))) -}}
{{- end -}}
{{ toJson $split }}
{{- end }}

{{- define "garboard.controllers.own" -}}
args:
  {{- include "garboard.controllers.args" . | nindent 2 }}
  {{- with .Values.controllers.split }}
  {{- $elsewhere := list "*" }}
  {{- range . }}
  {{- range .controllers }}
  {{- $elsewhere = append $elsewhere (printf "-%s" .) }}
  {{- end }}
  {{- end }}
  - {{ printf "--controllers=%s" (join "," $elsewhere) | quote }}
  {{- end }}
{{ include "garboard.follower.own" (list . "controllers" 10257) }}
{{- end }}

{{- define "garboard.scheduler.own" -}}
args:
  - --kubeconfig=/etc/garboard/pki/kubeconfig
  - --health-address=0.0.0.0:10259
  {{- include "garboard.commonArgs" . | nindent 2 }}
{{ include "garboard.follower.own" (list . "scheduler" 10259) }}
{{- end }}

{{/* Common parts of the controllers and the scheduler: (list $ "scheduler" 10259). */}}
{{- define "garboard.follower.own" -}}
{{- $root := index . 0 -}}
ports:
  - { name: metrics, containerPort: {{ index . 2 }} }
probes:
  {{- include "garboard.probes" (list "HTTP" "metrics" "/livez" "/readyz") | nindent 2 }}
volumeMounts:
  - { name: pki, mountPath: /etc/garboard/pki, readOnly: true }
  {{- if eq $root.Values.nats.mode "external" }}
  - { name: nats, mountPath: /etc/garboard/nats, readOnly: true }
  {{- end }}
volumes:
  {{- include "garboard.pki" (list $root (index . 1)) | nindent 2 }}
  {{- include "garboard.nats.volume" $root | nindent 2 }}
{{- end }}

{{/* The volume with the certificates for an external NATS. */}}
{{- define "garboard.nats.volume" -}}
{{- if eq .Values.nats.mode "external" -}}
- name: nats
  secret: { secretName: {{ .Values.nats.external.existingSecret | quote }}, defaultMode: 0440 }
{{- end -}}
{{- end }}
