# Calls a script with the arguments of args.json and writes down what came of it: pwsh -File wrapper.ps1 <script>
param([string]$WindmillScript)

$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
$PSStyle.OutputRendering = 'PlainText'
# Everything this wrapper needs later is in here: the script shares its scope with nothing else of ours.
$windmill = @{ Folder = $PWD.ProviderPath; Last = $null; HasLast = $false }

function Write-WindmillFile([string]$Name, [string]$Text) {
    [System.IO.File]::WriteAllText([System.IO.Path]::Combine($windmill.Folder, $Name), $Text)
}

# The value of a JSON element. ConvertFrom-Json would make dates of texts that look like one.
function ConvertFrom-WindmillJson($Element, [bool]$AsHashtable) {
    switch ($Element.ValueKind.ToString()) {
        'Object' {
            $members = if ($AsHashtable) { @{} } else { [ordered]@{} }
            foreach ($member in $Element.EnumerateObject()) {
                $members[$member.Name] = ConvertFrom-WindmillJson $member.Value $AsHashtable
            }
            if ($AsHashtable) { return $members }
            return [pscustomobject]$members
        }
        'Array' {
            $items = @(foreach ($item in $Element.EnumerateArray()) { , (ConvertFrom-WindmillJson $item $AsHashtable) })
            return , $items
        }
        'Number' {
            $whole = [long]0
            if ($Element.TryGetInt64([ref]$whole)) { return $whole }
            return $Element.GetDouble()
        }
        'String' { return $Element.GetString() }
        'True' { return $true }
        'False' { return $false }
    }
    return $null
}

# The arguments that the parameters ask for, by name. What is not given is left to the script's own default.
function Get-WindmillArguments($ParamBlock) {
    $text = [System.IO.File]::ReadAllText([System.IO.Path]::Combine($windmill.Folder, 'args.json'))
    $given = [System.Text.Json.JsonDocument]::Parse($text).RootElement
    $arguments = @{}
    foreach ($parameter in $ParamBlock.Parameters) {
        $name = $parameter.Name.VariablePath.UserPath
        $type = $parameter.StaticType
        $wantsHashtable = [System.Collections.IDictionary].IsAssignableFrom($type)
        foreach ($member in $given.EnumerateObject()) {
            if ($member.Name -ne $name) { continue }
            $value = ConvertFrom-WindmillJson $member.Value $wantsHashtable
            if ($null -eq $value) { continue }
            if ($value -is [string] -and $value -eq '<function call>' -and $null -ne $parameter.DefaultValue) { continue }
            if ($type -eq [byte[]] -and $value -is [string]) { $value = [System.Convert]::FromBase64String($value) }
            $arguments[$name] = $value
        }
    }
    return $arguments
}

# The last object of the output as JSON. Texts are left out: the last line that was printed is the result then.
function Write-WindmillResult {
    $value = $windmill.Last
    if (-not $windmill.HasLast -or $null -eq $value -or $value -is [string]) { return }
    if ($value.GetType().FullName.StartsWith('Microsoft.PowerShell.Commands.Internal.Format')) { return }
    # Objects of .NET lead to half of its world within a few levels; data has an end.
    $isData = $value -is [System.Collections.IEnumerable] -or $value -is [System.Management.Automation.PSCustomObject]
    $depth = if ($isData) { 50 } else { 2 }
    $json = ConvertTo-Json -InputObject $value -Depth $depth -Compress -WarningAction SilentlyContinue
    Write-WindmillFile 'windmill_result.json' $json
}

function Write-WindmillError([string]$Name, [string]$Message, [string]$Stack) {
    $failure = [ordered]@{ name = $Name; message = $Message }
    if ($Stack) { $failure.stack = $Stack }
    Write-WindmillFile 'windmill_error.json' (ConvertTo-Json -InputObject $failure -Compress)
}

function Get-WindmillStack($Record) {
    $lines = "$($Record.ScriptStackTrace)" -split "`n" | Where-Object { $_ -and $_ -notmatch 'wrapper\.ps1: line \d+$' }
    return (@($lines) -join "`n").Replace("$($windmill.Folder)/", '')
}

$windmill.Script = [System.IO.Path]::Combine($windmill.Folder, $WindmillScript)
$windmillTokens = $windmillErrors = $null
$windmill.Tree = [System.Management.Automation.Language.Parser]::ParseFile(
    $windmill.Script, [ref]$windmillTokens, [ref]$windmillErrors)
if ($windmillErrors) {
    $windmill.Error = $windmillErrors[0]
    $windmill.Place = "$($WindmillScript):$($windmill.Error.Extent.StartLineNumber):$($windmill.Error.Extent.StartColumnNumber)"
    Write-WindmillError 'ParseError' "$($windmill.Place): $($windmill.Error.Message)" ''
    exit 1
}
try {
    $windmill.Arguments = Get-WindmillArguments $windmill.Tree.ParamBlock
    $windmill.Block = $windmill.Tree.GetScriptBlock()
    $windmillArguments = $windmill.Arguments
    # A block, not a file: `exit 3` in it ends this whole program with 3.
    & $windmill.Block @windmillArguments |
        ForEach-Object { $windmill.Last = $_; $windmill.HasLast = $true; $_ } |
        Out-Default
    Write-WindmillResult
}
catch {
    $windmill.Error = $_
    $windmill.Error | Out-String | Write-Host
    $windmill.Name = $windmill.Error.Exception.GetType().Name
    Write-WindmillError $windmill.Name $windmill.Error.Exception.Message (Get-WindmillStack $windmill.Error)
    exit 1
}
