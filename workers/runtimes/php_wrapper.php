<?php
// Calls a script's function and writes down what came of it: php wrapper.php <script> <function> <autoloader>
// The script is included at the end, in the global scope, so that it sees its own variables there.

final class WindmillRun
{
    private static string $folder; // in which the job began: the script may move to another one
    private static string $script;
    private static string $entrypoint;
    private static bool $isOver = false;
    private static ?string $reserve; // memory for saying that there is none left

    /** The path of the file to include. */
    public static function begin(array $argv): string
    {
        self::$folder = getcwd();
        self::$script = self::$folder . '/' . $argv[1];
        self::$entrypoint = $argv[2];
        self::$reserve = str_repeat('x', 65536);
        register_shutdown_function(self::atExit(...));
        if (($argv[3] ?? '') !== '') {
            require $argv[3];
        }
        return self::$script;
    }

    public static function finish(): void
    {
        $function = self::entrypoint();
        if ($function === null) {
            $name = self::$entrypoint;
            self::fail('MissingEntrypoint', "The script has no function $name: write function $name(...) in it.");
            return;
        }
        $result = ($function->getClosure())(...self::arguments($function));
        self::write('result.json', self::json($result));
        self::$isOver = true;
    }

    public static function failed(Throwable $error): void
    {
        $message = preg_replace('/, called in .+ on line \d+$/', '', $error->getMessage());
        if ($error instanceof CompileError) { // there is no call to tell the line
            $message .= ' in ' . self::place($error->getFile(), ' on line ', $error->getLine());
        }
        self::fail($error::class, $message, self::stack($error));
    }

    private static function atExit(): void
    {
        if (self::$isOver) {
            return;
        }
        self::$reserve = null;
        $last = error_get_last();
        if ($last !== null && ($last['type'] & (E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR))) {
            $place = self::place($last['file'], ' on line ', $last['line']);
            self::fail('FatalError', strtok($last['message'], "\n") . " in $place");
            return;
        }
        $name = self::$entrypoint;
        self::fail('ExecutionErr', "The script ended before $name returned; exit and die do that");
    }

    private static function fail(string $name, string $message, string $stack = ''): void
    {
        self::$isOver = true;
        $error = ['name' => $name, 'message' => $message] + ($stack === '' ? [] : ['stack' => $stack]);
        self::write('error.json', self::json($error));
        exit(1);
    }

    /** The script's own function; functions have namespaces, and no case. */
    private static function entrypoint(): ?ReflectionFunction
    {
        foreach (get_defined_functions()['user'] as $name) {
            if (strtolower(self::$entrypoint) === substr(strrchr("\\$name", '\\'), 1)) {
                $function = new ReflectionFunction($name);
                if ($function->getFileName() === realpath(self::$script)) {
                    return $function;
                }
            }
        }
        return null;
    }

    // --- arguments ---

    private static function arguments(ReflectionFunction $function): array
    {
        $given = json_decode(file_get_contents(self::$folder . '/args.json'), false, 512, JSON_THROW_ON_ERROR);
        $arguments = [];
        foreach ($function->getParameters() as $parameter) {
            $value = $given->{$parameter->getName()} ?? null;
            $type = $parameter->getType();
            if ($parameter->isVariadic()) {
                foreach (is_array($value) ? $value : [] as $item) {
                    $arguments[] = self::converted($item, $type);
                }
            } elseif ($parameter->isDefaultValueAvailable() && ($value === null || $value === '<function call>')) {
                $arguments[] = $parameter->getDefaultValue();
            } else {
                $arguments[] = self::converted($value, $type);
            }
        }
        return $arguments;
    }

    /** The JSON value as a parameter of this type wants it; what fits no type is left for PHP to complain about. */
    private static function converted(mixed $value, ?ReflectionType $type): mixed
    {
        if ($type instanceof ReflectionUnionType) {
            foreach ($type->getTypes() as $member) {
                if ($member instanceof ReflectionNamedType && self::mayTake($member, $value)) {
                    return self::converted($value, $member);
                }
            }
        }
        $name = $type instanceof ReflectionNamedType ? $type->getName() : 'mixed';
        if ($value === null || $name === 'object' || $name === 'stdClass') {
            return $value;
        }
        if (!$type instanceof ReflectionNamedType || $type->isBuiltin()) {
            return self::asArrays($value);
        }
        if (enum_exists($name)) {
            return self::enumCase($name, $value);
        }
        if (is_a($name, DateTimeInterface::class, true) && is_string($value)) {
            return interface_exists($name) ? new DateTimeImmutable($value) : new $name($value);
        }
        return is_object($value) ? self::instance($name, $value) : $value;
    }

    private static function mayTake(ReflectionNamedType $type, mixed $value): bool
    {
        if (!$type->isBuiltin()) {
            return is_object($value) || (is_string($value) && is_a($type->getName(), DateTimeInterface::class, true));
        }
        return match (true) {
            is_object($value) => in_array($type->getName(), ['object', 'array', 'iterable', 'mixed'], true),
            is_array($value) => in_array($type->getName(), ['array', 'iterable', 'mixed'], true),
            default => false,
        };
    }

    private static function enumCase(string $name, mixed $value): mixed
    {
        if (is_a($name, BackedEnum::class, true)) {
            return is_int($value) || is_string($value) ? $name::from($value) : $value;
        }
        foreach ($name::cases() as $case) {
            if ($case->name === $value) {
                return $case;
            }
        }
        throw new ValueError(json_encode($value) . " is not a case of $name");
    }

    /** An object with the declared properties of its class; one of no class of the script has all that was given. */
    private static function instance(string $name, object $value): object
    {
        if (!class_exists($name)) {
            class_alias(WindmillResource::class, $name);
        }
        $class = new ReflectionClass($name);
        if ($class->isInternal() || $class->isAbstract()) {
            return $value;
        }
        $object = $class->newInstanceWithoutConstructor();
        foreach (get_object_vars($value) as $key => $item) {
            $property = $class->hasProperty($key) ? $class->getProperty($key) : null;
            if ($property !== null && !$property->isStatic()) {
                $property->setValue($object, self::converted($item, $property->getType()));
            } elseif ($object instanceof stdClass) {
                $object->$key = self::asArrays($item);
            }
        }
        return $object;
    }

    private static function asArrays(mixed $value): mixed
    {
        return is_object($value) || is_array($value) ? array_map(self::asArrays(...), (array) $value) : $value;
    }

    // --- results ---

    private static function json(mixed $value): string
    {
        $options = JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_LINE_TERMINATORS
            | JSON_INVALID_UTF8_SUBSTITUTE | JSON_PRESERVE_ZERO_FRACTION;
        if ($value instanceof Traversable && !$value instanceof JsonSerializable) {
            $value = iterator_to_array($value);
        }
        $text = json_encode($value, $options);
        if (json_last_error() === JSON_ERROR_INF_OR_NAN) {
            $text = json_encode(self::withoutOddNumbers($value), $options);
        }
        if ($text === false) {
            throw new JsonException('The result cannot be written as JSON: ' . json_last_error_msg());
        }
        return $text;
    }

    private static function withoutOddNumbers(mixed $value): mixed
    {
        if (is_float($value)) {
            return is_finite($value) ? $value : null;
        }
        if (is_array($value)) {
            return array_map(self::withoutOddNumbers(...), $value);
        }
        return $value instanceof stdClass ? (object) array_map(self::withoutOddNumbers(...), (array) $value) : $value;
    }

    private static function write(string $file, string $text): void
    {
        file_put_contents(self::$folder . '/' . $file, $text);
    }

    // --- places ---

    private static function stack(Throwable $error): string
    {
        $lines = [];
        for ($cause = $error; $cause !== null; $cause = $cause->getPrevious()) {
            if ($cause !== $error) {
                $lines[] = 'caused by ' . $cause::class . ': ' . $cause->getMessage();
            }
            $lines[] = self::place($cause->getFile(), ':', $cause->getLine());
            foreach ($cause->getTrace() as $frame) {
                if (isset($frame['file']) && $frame['file'] !== __FILE__) {
                    $called = ($frame['class'] ?? '') . ($frame['type'] ?? '') . $frame['function'];
                    $lines[] = self::place($frame['file'], ':', $frame['line']) . " $called()";
                }
            }
        }
        return implode("\n", array_filter($lines, fn ($line) => !str_starts_with($line, 'wrapper.php:')));
    }

    private static function place(string $file, string $between, int $line): string
    {
        return str_replace(self::$folder . '/', '', $file) . $between . $line;
    }
}

class WindmillResource extends stdClass
{
}

try {
    require WindmillRun::begin($argv);
    WindmillRun::finish();
} catch (Throwable $windmillError) {
    WindmillRun::failed($windmillError);
}
